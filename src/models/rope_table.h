#pragma once
// RopeTable: cosines and sines of the rotary embedding by position, computed when a position is first
// needed, so that a long context costs nothing until it is used. Where the rotation depends on how long a
// sequence may become, the rows of such a sequence are computed anew for each batch, by the same formula.
// Source of the scalings: transformers' modeling_rope_utils (linear, llama3, yarn, longrope, dynamic).
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/placed.h"
#include "models/decoder_config.h"

namespace pagoda {

// Radians per position of each rotated pair; `factors` divide them (GGUF's rope_freqs) or is empty.
// `rotation`: as RotationRule (request/rotation_rule.h) numbers them; 0 is the ordinary one.
std::vector<double> rope_frequencies(const RopeConfig& config, std::span<const float> factors,
                                     std::int32_t rotation = 0);

// By what rows of a batch are turned: row i by row index[i] of the table.
struct RopeRows {
  std::span<const std::int32_t> index;
  Buffer table;  // [index, rotary_size]: cosines, then sines
};

class RopeTable {
 public:
  // `long_factors`: instead of `factors` in sequences that may become long. `max_rows`: of a batch.
  static Result<RopeTable> create(const KernelContext& context, const RopeConfig& config,
                                  std::span<const float> factors, std::int32_t max_positions,
                                  std::span<const float> long_factors = {}, std::int32_t max_rows = 0);

  // For each batch, before of_rows(): the rotations of its rows, as in DecoderBatch. Computes what of_rows()
  // will need.
  void prepare(const KernelContext& context, std::span<const std::int32_t> positions,
               std::span<const std::int32_t> rotations);
  // Rows of the prepared batch from `first` on, which are at these positions.
  RopeRows of_rows(const KernelContext& context, std::span<const std::int32_t> positions, std::int64_t first);

  // [position, rotary_size]: cosines, then sines; valid for positions below `num_positions`.
  Buffer rows(const KernelContext& context, std::int32_t num_positions);

 private:
  Buffer in(const PlacedMemory& memory) const;

  RopeConfig config_;
  std::vector<float> factors_, long_factors_;
  std::vector<double> frequencies_;
  double amplitude_ = 1;
  PlacedMemory memory_, own_;  // own_: by row of a batch
  bool own_rows_ = false;
  std::vector<std::int32_t> row_numbers_;
  std::int32_t num_filled_ = 0, max_positions_ = 0;
};

}  // namespace pagoda
