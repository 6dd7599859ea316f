#pragma once
// A Hugging Face folder as the GGUF file that llama.cpp's converter would make of it: names and order of
// tensors, their transformations, and the metadata of the model; its tokenizer's come from whoever knows one.
// Nothing here is of one family: names follow from the family's WeightNames of both formats, transformations
// from what differs between the descriptions that its readers make of folder and file, and a file whose
// description would differ in anything else is refused, so that none is written that means another model.
// Threads: any.
#include "base/status.h"
#include "loader/model_source.h"
#include "models/quantize/quantize_gguf.h"

namespace pagoda {

// `folder` must outlive the result. unimplemented: its family has no GGUF files, or what such a file cannot
// say; the first tensor that has no place in it.
Result<GgufModel> folder_as_gguf(const ModelSource& folder);

}  // namespace pagoda
