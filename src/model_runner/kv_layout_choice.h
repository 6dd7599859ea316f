#pragma once
// In which type, and in what shape, the keys and values of a model are kept. Not in which pages they lie:
// kv_group_plan.h. Errors: invalid_argument, with the flag's name. Threads: any.
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "kernels/kv_layout.h"
#include "loader/model_source.h"
#include "models/model_info.h"

namespace pagoda {

// The meaning of kv_cache_dtype "auto": float32 and float16 with the dtype of that name; else float16 beside
// matrices that are multiplied in 8 bits (llama.cpp's default), unless they are a folder's whose other
// weights are bfloat16 (vLLM's), and if biases or norms make some channels of keys so large that bfloat16's
// rounding of them counts (Qwen2: biases of hundreds); otherwise bfloat16. Never int8: one scale a head loses
// the small values beside such channels.
DType automatic_kv_dtype(const ModelSource& source, const ModelInfo& model, std::string_view dtype);

// Layout of the KV cache; its block_bytes() is what one block of `block_size` tokens takes.
Result<KvLayout> plan_kv_layout(const ModelSource& source, const ModelInfo& model, std::string_view dtype,
                                std::string_view kv_cache_dtype, std::int32_t block_size);

}  // namespace pagoda
