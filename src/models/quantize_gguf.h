#pragma once
// Rewrites a GGUF model with its weights in another type, as llama-quantize does: a piece at a time, metadata
// and tokenizer as they are. Which tensor gets which type is decided first, as data. Not here: other formats
// in or out. Threads: one caller, which may lend a pool. Owner: whoever calls.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "loader/gguf.h"
#include "loader/model_source.h"
#include "tensor/dtype.h"

namespace pagoda {

// Each tensor's type in the new file for Q4_K, Q6_K, Q8_0, Q4_0, BF16 or F16, in the order of tensor_list().
// Norms, routers, convolutions and what has one axis stay as they are; the head (or the embedding that is
// one) is at least Q6_K; where rows are not whole blocks, the next larger type that fits.
std::vector<DType> plan_quantization(const GgufFile& file, DType type);

struct Quantized {
  std::int64_t bytes_before = 0, bytes_after = 0;  // all tensors
  std::int64_t twice = 0;  // bytes of tensors that were quantised already, to another type
};
// `source` is a GGUF file's. `on_progress` is told how many of its tensors' bytes are done.
Result<Quantized> quantize_gguf(const ModelSource& source, DType type, const std::string& to,
                                ThreadPool& pool, const std::function<void(std::int64_t)>& on_progress);

}  // namespace pagoda
