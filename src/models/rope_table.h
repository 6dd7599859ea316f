#pragma once
// RopeTable: cosines and sines of the rotary embedding by position, computed when a position is first
// needed, so that a long context costs nothing until it is used.
// Source of the scalings: transformers' modeling_rope_utils (linear, llama3, yarn, longrope).
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"
#include "models/decoder_config.h"
#include "tensor/memory.h"

namespace pagoda {

// Radians per position of each rotated pair; `factors` divide them (GGUF's rope_freqs) or is empty.
std::vector<double> rope_frequencies(const RopeConfig& config, std::span<const float> factors);

class RopeTable {
 public:
  static Result<RopeTable> create(const RopeConfig& config, std::span<const float> factors,
                                  std::int32_t max_positions);

  // [position][rotary_size]: cosines, then sines; valid for positions below `num_positions`.
  const float* rows(const KernelContext& context, std::int32_t num_positions);

 private:
  std::vector<double> frequencies_;
  double amplitude_ = 1;
  Memory memory_;
  std::int32_t num_filled_ = 0, max_positions_ = 0;
};

}  // namespace pagoda
