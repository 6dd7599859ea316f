#pragma once
// Rewrites a Hugging Face folder with its linear layers quantised, as llm-compressor does without
// calibration: a compressed-tensors folder that vLLM, transformers and Pagoda read. Weights go through in
// pieces, all other files are copied, and config.json, which makes it a model, is written last. Which
// matrices are quantised is decided first, as data. Not here: GGUF (quantize_gguf.h). Threads: one caller,
// which may lend a pool.
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
  std::string_view format;       // compressed-tensors'
  std::string_view weights;      // its arguments of weights, but for int4's group size, and of activations
  std::string_view activations;  // empty: they are not quantised
};
const FolderScheme* find_folder_scheme(std::string_view name);

struct FolderPlan {
  std::vector<std::string> quantised;  // tensors
  std::vector<std::string> kept;       // modules that a list of ignored ones names
  std::int32_t group = 0;              // int4's
};
// The matrices of attention and feed-forwards, experts among them; not embeddings, the head, routers,
// convolutions, layers with states, or matrices of other parts than the decoder. unimplemented: the model is
// quantised already, stores its matrices [in, out] or its experts stacked; or there is nothing to quantise.
Result<FolderPlan> plan_folder(const ModelSource& source, const FolderScheme& scheme);

// `source` is a folder; `to` must not exist. `on_progress` is told how many of its tensors' bytes are done.
Result<Quantized> quantize_folder(const ModelSource& source, const FolderScheme& scheme,
                                  const std::string& to, ThreadPool& pool,
                                  const std::function<void(std::int64_t)>& on_progress);

}  // namespace pagoda
