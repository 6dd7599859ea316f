#pragma once
// Chooses the type and the shape in which a model's keys and values are stored. kv_group_plan.h places them
// in pages.
// Errors: invalid_argument, with the flag's name. Threads: any.
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "kernels/kv_layout.h"
#include "loader/model_source.h"
#include "models/model_info.h"

namespace pagoda {

// Resolves kv_cache_dtype "auto". float32 and float16: the dtype of that name. Otherwise float16 if matrices
// are multiplied in 8 bits (llama.cpp's default), unless the model is a folder whose other weights are
// bfloat16 (vLLM's default); also float16 if biases or norms make some channels of keys so large that
// bfloat16's rounding matters (Qwen2: biases of hundreds). Otherwise bfloat16. Never int8: a single scale per
// head loses the small values beside such channels.
DType automatic_kv_dtype(const ModelSource& source, const ModelInfo& model, std::string_view dtype);

// Returns the layout of the KV cache; its block_bytes() is the size of a block of `block_size` tokens.
Result<KvLayout> plan_kv_layout(const ModelSource& source, const ModelInfo& model, std::string_view dtype,
                                std::string_view kv_cache_dtype, std::int32_t block_size);

}  // namespace pagoda
