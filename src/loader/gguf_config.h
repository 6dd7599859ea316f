#pragma once
// GGUF metadata as ModelConfig, by llama.cpp's key names. Keys of the architecture that are not known to
// be harmless are refused by name. tokenizer.ggml.* beyond the special ids is left to text/.
#include "base/status.h"
#include "loader/gguf.h"
#include "loader/model_config.h"

namespace pagoda {

// corrupt_data: a key is missing or of the wrong type. unimplemented: an architecture or an option.
Result<ModelConfig> gguf_config(const GgufFile& file);

}  // namespace pagoda
