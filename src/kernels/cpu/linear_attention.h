#pragma once
// Linear attention of one instruction set: some columns of one head's state, through rows of one sequence.
// Contract: kernels/linear_attention.h.
#include <cstdint>

#include "kernels/backend.h"

namespace pagoda::cpu {

// Pointers are to what the sequence's first row has.
struct LinearAttentionTile {
  std::int32_t key_size = 0, columns = 0;
  bool delta_rule = false;
  const float *query = nullptr, *key = nullptr, *value = nullptr;  // value: of the first column
  std::int64_t row_stride = 0;
  const float *decay = nullptr, *weight = nullptr;
  std::int64_t gate_stride = 0;
  float skip = 0;
  float* output = nullptr;
  std::int64_t output_stride = 0;
  float* state = nullptr;  // [key_size, columns]
};

// Rows [first, last) of the sequence, in place on the state.
using LinearAttentionRows = void (*)(const LinearAttentionTile& tile, std::int32_t first, std::int32_t last);

LinearAttentionRows linear_attention_rows_avx512();
LinearAttentionRows linear_attention_rows_avx2();
LinearAttentionRows linear_attention_rows_portable();
LinearAttentionRows linear_attention_rows(CpuLevel level);

}  // namespace pagoda::cpu
