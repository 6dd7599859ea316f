#pragma once
// Converts a folder's tokenizer and chat template into GGUF metadata. A GGUF file names the rule that splits
// text before BPE. The rule is chosen as in llama.cpp's converter: the one that gives the same tokens for a
// text that distinguishes the rules. Threads: any.
#include <vector>

#include "base/status.h"
#include "loader/gguf_writer.h"
#include "loader/model_source.h"
#include "models/model_info.h"

namespace pagoda {

// Empty if the folder has no tokenizer. unimplemented: GGUF does not support the tokenizer, or it is not in
// tokenizer.json.
Result<std::vector<GgufEntry>> gguf_vocabulary(const ModelSource& folder, const ModelInfo& info);

}  // namespace pagoda
