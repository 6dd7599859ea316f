#pragma once
// RopeTable: cosines and sines of the rotary embedding by position, computed when a position is first needed,
// so that a long context costs nothing until it is used. If the rotation depends on the length that a
// sequence may reach, its rows are recomputed for each batch with the same formula.
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

// Returns radians per position for each rotated pair, divided by `factors` (GGUF's rope_freqs; may be empty).
// `rotation`: numbered as in RotationRule (request/rotation_rule.h); 0 is the ordinary rotation.
std::vector<double> rope_frequencies(const RopeConfig& config, std::span<const float> factors,
                                     std::int32_t rotation = 0);

// Rotation of a batch's rows: row i uses row index[i] of the table.
struct RopeRows {
  std::span<const std::int32_t> index;
  Buffer table;  // [index, rotary_size]: cosines, then sines
};

class RopeTable {
 public:
  // `long_factors` replace `factors` in sequences that may become long. `max_rows`: per batch.
  static Result<RopeTable> create(const KernelContext& context, const RopeConfig& config,
                                  std::span<const float> factors, std::int32_t max_positions,
                                  std::span<const float> long_factors = {}, std::int32_t max_rows = 0);

  // Called for each batch before of_rows(), with the rotations of its rows as in DecoderBatch. Computes the
  // rows that of_rows() needs.
  void prepare(const KernelContext& context, std::span<const std::int32_t> positions,
               std::span<const std::int32_t> rotations);
  // Returns the rows of the prepared batch from `first` on, which are at these positions.
  RopeRows of_rows(const KernelContext& context, std::span<const std::int32_t> positions, std::int64_t first);

  // [position, rotary_size]: cosines, then sines; valid for positions below `num_positions`.
  Buffer rows(const KernelContext& context, std::int32_t num_positions);

 private:
  Buffer in(const PlacedMemory& memory) const;

  RopeConfig config_;
  std::vector<float> factors_, long_factors_;
  std::vector<double> frequencies_;
  double amplitude_ = 1;
  PlacedMemory memory_, own_;  // own_: by row of the batch
  bool own_rows_ = false;
  std::vector<std::int32_t> row_numbers_;
  std::int32_t num_filled_ = 0, max_positions_ = 0;
};

}  // namespace pagoda
