#pragma once
// A folder's tokenizer and chat template as GGUF metadata. How text is split before BPE, a GGUF file says by
// a name: the one is taken whose tokenizer makes the same of a text full of what such rules tell apart, as
// llama.cpp's converter chooses it. Threads: any.
#include <vector>

#include "base/status.h"
#include "loader/gguf_writer.h"
#include "loader/model_source.h"
#include "models/model_info.h"

namespace pagoda {

// Empty: the folder has no tokenizer. unimplemented: one that GGUF files cannot have, or that is not in
// tokenizer.json.
Result<std::vector<GgufEntry>> gguf_vocabulary(const ModelSource& folder, const ModelInfo& info);

}  // namespace pagoda
