#pragma once
// A Hugging Face config.json (and generation_config.json) as ModelConfig, with the defaults that
// transformers 5 gives to absent fields. What changes the mathematics and is not understood is refused
// by name. Knows nothing of files.
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "loader/model_config.h"

namespace pagoda {

// corrupt_data: not JSON, or a field of the wrong type. unimplemented: an architecture or an option.
// generation_config contributes its end-of-sequence ids only.
Result<ModelConfig> parse_config_json(std::string_view config,
                                      std::optional<std::string_view> generation_config = std::nullopt);

// What config.json calls its architecture ("LlamaForCausalLM"), supported or not; for descriptions.
Result<std::string> architecture_of_config_json(std::string_view config);

}  // namespace pagoda
