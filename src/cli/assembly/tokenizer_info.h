#pragma once
// The body of GET /tokenizer_info: tokenizer_config.json of the model, or its like from a GGUF file, with the
// chat template that is used.
#include <string>

#include "loader/model_source.h"
#include "text/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// A JSON object. `tokenizer_file` (--tokenizer) is where it comes from instead of `source`; empty: not given.
std::string tokenizer_info(const ModelSource& source, const std::string& tokenizer_file,
                           const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                           std::int32_t max_model_len);

}  // namespace pagoda
