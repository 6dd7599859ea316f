#pragma once
// Reads a model's files into ModelInfo: finds the family that handles them and calls its reader. Absent
// fields get the defaults of transformers 5. Unknown options that change the computation are refused by name.
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "loader/gguf.h"
#include "loader/model_source.h"
#include "models/model_info.h"

namespace pagoda {

// corrupt_data: not JSON, or a field is missing or of the wrong type. unimplemented: an unsupported
// architecture or option.
Result<ModelInfo> read_model_config(const ModelSource& source);

// The same for config.json; generation_config.json only contributes end-of-sequence ids.
Result<ModelInfo> read_config_json(std::string_view config,
                                   std::optional<std::string_view> generation_config = std::nullopt);

// The same for GGUF metadata. Of tokenizer.ggml.*, only the special ids are read; text/ reads the rest.
Result<ModelInfo> read_gguf_config(const GgufFile& file);

// Returns the architecture that config.json names ("LlamaForCausalLM"), supported or not; for descriptions.
Result<std::string> architecture_of_config_json(std::string_view config);

}  // namespace pagoda
