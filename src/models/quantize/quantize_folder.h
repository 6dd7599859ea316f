#pragma once
// Rewrites a Hugging Face folder with quantised linear layers, as llm-compressor does without calibration: a
// compressed-tensors folder that vLLM, transformers and Pagoda read. Weights are processed in pieces, all
// other files are copied, and config.json, which makes the folder a model, is written last. The choice of
// matrices to quantise is made first, as data. GGUF: quantize_gguf.h.
// Threads: one caller, which may lend a pool.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/quantize_row.h"
#include "loader/model_source.h"
#include "models/quantize/quantize_gguf.h"

namespace pagoda {

// "w8a8", "w4a16", "fp8" or "mxfp4".
struct FolderScheme {
  std::string_view name;
  RowScheme rows = RowScheme::int8;
  std::string_view format;       // compressed-tensors' name
  std::string_view weights;      // compressed-tensors' arguments of weights, without int4's group size
  std::string_view activations;  // the same for activations; empty: not quantised
};
const FolderScheme* find_folder_scheme(std::string_view name);

struct FolderPlan {
  std::vector<std::string> quantised;  // names of tensors
  std::vector<std::string> kept;       // modules to name in the list of ignored ones
  std::int32_t group = 0;              // group size of int4
};
// Quantises the matrices of attention and feed-forwards, including experts; not embeddings, the head,
// routers, convolutions, layers with states, or matrices outside the decoder. unimplemented: the model is
// already quantised, stores matrices as [in, out] or experts stacked, or has nothing to quantise.
Result<FolderPlan> plan_folder(const ModelSource& source, const FolderScheme& scheme);

// `source` is a folder; `to` must not exist. `on_progress` is called with the bytes of its tensors processed
// so far.
Result<Quantized> quantize_folder(const ModelSource& source, const FolderScheme& scheme,
                                  const std::string& to, ThreadPool& pool,
                                  const std::function<void(std::int64_t)>& on_progress);

}  // namespace pagoda
