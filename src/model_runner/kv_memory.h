#pragma once
// Memory of the KV cache by group, known before any weight is read. It follows from the page plan
// (kv_group_plan.h).
// Errors: none. Threads: any.
#include <cstdint>
#include <vector>

#include "model_runner/kv_group_plan.h"
#include "tensor/dtype.h"

namespace pagoda {

struct KvGroupMemory {
  KvGroup group;
  std::int32_t num_layers = 0;
  std::int64_t row_bytes = 0;  // for group.tokens_per_row tokens, page padding included

  // Bytes of one sequence of `num_tokens` tokens, computed one row at a time.
  std::int64_t bytes(std::int64_t num_tokens) const {
    return group.rows_at_once(num_tokens, group.tokens_per_row) * row_bytes;
  }
};

// Memory by group, on one rank. Empty if the model keeps nothing, or not in this type. `dtype`: the type of
// keys and values.
std::vector<KvGroupMemory> kv_memory(const DecoderConfig& config, DType dtype, std::int32_t block_size = 16);

}  // namespace pagoda
