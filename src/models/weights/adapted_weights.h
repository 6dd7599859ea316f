#pragma once
// AdaptedSource: a model with a LoRA adapter merged into it, as a ModelSource like any other: the tensors
// that the adapter changes are made when they are brought in, row by row, so that families, loaders, devices
// and the cache of packed weights need to know of no adapter. Not adapters that requests choose: one model is
// served. A changed tensor keeps a float type; blocks and quantised weights become bfloat16, to which sums
// are rounded once. Threads: as ModelSource.
#include <memory>
#include <string>
#include <vector>

#include "loader/adapter.h"
#include "loader/model_source.h"

namespace pagoda {

// invalid_argument: the adapter is of another format or architecture, or of a tensor that the model lacks;
// corrupt_data: of another shape.
Result<std::unique_ptr<ModelSource>> with_adapter(std::unique_ptr<ModelSource> model, Adapter adapter);

// The error that an adapter has beside a model of this format, and of this architecture if it is a GGUF file;
// null: it says none.
Status check_adapts(const Adapter& adapter, ModelFormat format, const std::string* architecture);

// The values of an adapter's matrix, row by row.
std::vector<float> adapter_values(const AdapterMatrix& matrix);

}  // namespace pagoda
