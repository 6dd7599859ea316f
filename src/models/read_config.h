#pragma once
// A model's files as ModelInfo: finds the family that answers to them and lets it read. Absent fields get
// the defaults of transformers 5. Options that change the mathematics and are not understood are refused by
// name.
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "loader/gguf.h"
#include "loader/model_source.h"
#include "models/model_info.h"

namespace pagoda {

// corrupt_data: not JSON, a field that is missing, or of the wrong type. unimplemented: an architecture or an
// option.
Result<ModelInfo> read_model_config(const ModelSource& source);

// The same of config.json; generation_config.json contributes its end-of-sequence ids only.
Result<ModelInfo> read_config_json(std::string_view config,
                                   std::optional<std::string_view> generation_config = std::nullopt);

// The same of GGUF metadata. tokenizer.ggml.* beyond the special ids is left to text/.
Result<ModelInfo> read_gguf_config(const GgufFile& file);

// config.json's name of its architecture ("LlamaForCausalLM"), supported or not; for descriptions.
Result<std::string> architecture_of_config_json(std::string_view config);

}  // namespace pagoda
