#pragma once
// A conversation -> the tokens of its prompt: applies the model's template (or the request's own), the length
// limits and the tokenizer. User text stays text: special tokens in it are not parsed. Shared by all
// protocols. Errors: invalid_argument with a param() named as in Conversation. Threads: any.
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
  bool add_special_tokens = false;               // templates write special tokens themselves
  std::optional<std::string> own_template = {};  // overrides the model's
};

Result<std::vector<TokenId>> chat_prompt_tokens(Conversation conversation, const ApiContext& context,
                                                const ChatPromptOptions& options = {});

// Refuses a message's "role" unless it is one of OpenAI's or the model's template renders it: messages of
// other roles would be missing from the prompt.
void check_role(FieldReader& message, std::string_view role, const ApiContext& context);

}  // namespace pagoda
