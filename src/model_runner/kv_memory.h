#pragma once
// Memory of the KV cache, group by group, known before any weight is read. The plan of pages, from which it
// follows, is kv_group_plan.h's. Errors: none. Threads: any.
#include <cstdint>
#include <vector>

#include "model_runner/kv_group_plan.h"
#include "tensor/dtype.h"

namespace pagoda {

struct KvGroupMemory {
  KvGroup group;
  std::int32_t num_layers = 0;
  std::int64_t row_bytes = 0;  // group.tokens_per_row tokens, padding of pages included

  // Bytes of one sequence of so many tokens, computed a row at a time.
  std::int64_t bytes(std::int64_t num_tokens) const {
    return group.rows_at_once(num_tokens, group.tokens_per_row) * row_bytes;
  }
};

// By group, on one rank; nothing where nothing is kept, or not in this type. `dtype`: of keys and values.
std::vector<KvGroupMemory> kv_memory(const DecoderConfig& config, DType dtype, std::int32_t block_size = 16);

}  // namespace pagoda
