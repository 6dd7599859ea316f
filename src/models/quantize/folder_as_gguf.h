#pragma once
// Converts a Hugging Face folder into the GGUF file that llama.cpp's converter would make: names and order of
// tensors, their transformations, and the model's metadata. The caller supplies the tokenizer's metadata.
// Nothing here is specific to a family: names follow from the family's WeightNames of both formats,
// transformations from the differences between the readers' descriptions of folder and file. A file whose
// description differs in anything else is refused, so no written file can mean a different model.
// Threads: any.
#include "base/status.h"
#include "loader/model_source.h"
#include "models/quantize/quantize_gguf.h"

namespace pagoda {

// `folder` must outlive the result. unimplemented: the family has no GGUF files, or such a file cannot
// express the model; or a tensor has no place in the file (the first is named).
Result<GgufModel> folder_as_gguf(const ModelSource& folder);

}  // namespace pagoda
