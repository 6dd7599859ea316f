#pragma once
// `messages` and the other fields of a chat body -> a Conversation, and from there prompt tokens.
#include "api/api_context.h"
#include "api/field_reader.h"
#include "api/held_answer.h"
#include "api/reasoning_fields.h"
#include "api/tool_origins.h"
#include "api/warnings.h"
#include "text/conversation.h"

namespace pagoda {

struct ChatPrompt {
  std::vector<TokenId> token_ids;
  std::vector<ToolSpec> tools;  // that the model may call; empty for tool_choice none
  ToolChoice choice;
  ReasoningWish reasoning;
  ToolOrigins origins;  // origins of these tools
  Warnings warnings;
  std::string continued;  // content of the last message if it is continued; else empty
};

// Errors are reported through `fields`. `truncate` is not applied here.
ChatPrompt read_chat_prompt(FieldReader& fields, const ApiContext& context);

}  // namespace pagoda
