#pragma once
// AdaptedSource: a model with a LoRA adapter merged into it, as a ModelSource. Changed tensors are computed
// row by row when they are brought in, so families, loaders, devices and the cache of packed weights need no
// knowledge of adapters. Not for adapters chosen per request: only the merged model is served. A changed
// tensor keeps a float type; block formats and quantised weights become bfloat16, and sums are rounded to it
// once.
// Threads: as ModelSource.
#include <memory>
#include <string>
#include <vector>

#include "loader/adapter.h"
#include "loader/model_source.h"

namespace pagoda {

// invalid_argument: the adapter has another format or architecture, or a tensor that the model lacks.
// corrupt_data: a shape does not match.
Result<std::unique_ptr<ModelSource>> with_adapter(std::unique_ptr<ModelSource> model, Adapter adapter);

// Returns the error of using the adapter with a model of this format, and of this architecture if it is a
// GGUF file; null: unknown.
Status check_adapts(const Adapter& adapter, ModelFormat format, const std::string* architecture);

// The values of an adapter's matrix, row by row.
std::vector<float> adapter_values(const AdapterMatrix& matrix);

}  // namespace pagoda
