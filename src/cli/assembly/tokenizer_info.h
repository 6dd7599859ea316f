#pragma once
// The body of GET /tokenizer_info: the model's tokenizer_config.json, or the equivalent from a GGUF file,
// with the chat template in use.
#include <string>

#include "loader/model_source.h"
#include "text/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// Returns a JSON object. `tokenizer_file` (--tokenizer) is read instead of `source` unless it is empty.
std::string tokenizer_info(const ModelSource& source, const std::string& tokenizer_file,
                           const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                           std::int32_t max_model_len);

}  // namespace pagoda
