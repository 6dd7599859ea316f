#pragma once
// A conversation -> the tokens of its prompt: the model's template (or the request's own), the limits of
// length, the tokenizer. What users typed stays text: special tokens in it are not parsed. Shared by all
// protocols. Errors: invalid_argument with a param() in the words of Conversation. Threads: any.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_context.h"
#include "api/field_reader.h"
#include "base/status.h"
#include "text/conversation.h"

namespace pagoda {

struct ChatPromptOptions {
  bool add_special_tokens = false;               // templates write their own
  std::optional<std::string> own_template = {};  // in place of the model's
};

Result<std::vector<TokenId>> chat_prompt_tokens(Conversation conversation, const ApiContext& context,
                                                const ChatPromptOptions& options = {});

// Refuses the field "role" of a message unless it is one of OpenAI's or the model's template shows it: other
// messages would be left out of the prompt.
void check_role(FieldReader& message, std::string_view role, const ApiContext& context);

}  // namespace pagoda
