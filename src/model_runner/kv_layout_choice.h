#pragma once
// In which type, and in what shape, the keys and values of a model are kept. Not in which pages they lie:
// kv_group_plan.h. Errors: invalid_argument, with the flag's name. Threads: any.
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "kernels/kv_layout.h"
#include "loader/model_source.h"

namespace pagoda {

// Layout of the KV cache; its block_bytes() is what one block of `block_size` tokens takes. kv_cache_dtype
// "auto" follows the arithmetic: float32 or float16 beside such matrices, int8 beside 8-bit ones, bfloat16
// otherwise.
Result<KvLayout> plan_kv_layout(const ModelSource& source, std::string_view dtype,
                                std::string_view kv_cache_dtype, std::int32_t block_size);

}  // namespace pagoda
