#pragma once
// `messages` and the other template inputs of a chat body -> the context object a chat template is
// rendered with, and from there to prompt tokens. What users typed stays text: special tokens in it are
// not parsed.
#include "api/api_context.h"
#include "api/field_reader.h"

namespace pagoda {

struct ChatPrompt {
  std::vector<TokenId> token_ids;
  std::string continued;  // the content of a last message that is being continued; else empty
};

// Errors are left in `fields`. `truncate` is not applied here.
ChatPrompt read_chat_prompt(FieldReader& fields, const ApiContext& context);

}  // namespace pagoda
