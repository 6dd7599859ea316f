#pragma once
// The ops on recurrent states of one instruction set: each processes rows of one sequence, for a few channels
// or columns. Contracts as in causal_conv.h, linear_attention.h and selective_scan.h.
#include <cstdint>

#include "kernels/causal_conv.h"

namespace pagoda::cpu {

// Some columns of one head's state. Pointers refer to the sequence's first row.
struct LinearAttentionTile {
  std::int32_t key_size = 0, columns = 0;
  bool delta_rule = false;
  const float *query = nullptr, *key = nullptr, *value = nullptr;  // value: starting at the first column
  std::int64_t row_stride = 0;
  const float *decay = nullptr, *weight = nullptr;
  std::int64_t gate_stride = 0;
  float skip = 0;
  float* output = nullptr;
  std::int64_t output_stride = 0;
  float* state = nullptr;  // [key_size, columns]
};

// Some channels. Pointers refer to the sequence's first row and the tile's first channel.
struct SelectiveScanTile {
  std::int32_t state_size = 0;
  std::int64_t channels = 0;                     // at most kScanTile
  const float *rate = nullptr, *skip = nullptr;  // rate: [state_size, channels]
  const float* step = nullptr;
  std::int64_t step_stride = 0;
  const float* value = nullptr;
  std::int64_t value_stride = 0;
  const float *key = nullptr, *query = nullptr;
  std::int64_t key_stride = 0;
  float* output = nullptr;
  std::int64_t output_stride = 0;
  float* state = nullptr;  // [state_size, channels]
};

struct StateKernels {
  // Computes channels [begin, end).
  void (*causal_conv)(const CausalConvArgs& args, const StateSequence& sequence, std::int64_t begin,
                      std::int64_t end);
  // Compute rows [first, last), updating the tile's state in place.
  void (*linear_attention)(const LinearAttentionTile& tile, std::int32_t first, std::int32_t last);
  void (*selective_scan)(const SelectiveScanTile& tile, std::int32_t first, std::int32_t last);

  static const StateKernels portable, avx2, avx512;
};

}  // namespace pagoda::cpu
