#pragma once
// Bodies of /v1/messages and /v1/messages/count_tokens -> ChatCall: system blocks, content blocks, tools and
// thinking become a Conversation. Unknown fields are ignored; unsupported fields that would change the answer
// are refused by name. Errors name the field by its dotted path. Threads: any.
#include <string_view>

#include "api/api_context.h"
#include "api/chat_call.h"
#include "base/status.h"

namespace pagoda {

struct MessagesCall {
  ChatCall chat;
  bool stream = false;
};

// `counting`: only the prompt's tokens are counted, so max_tokens may be absent.
Result<MessagesCall> parse_messages_call(std::string_view body, bool counting, const ApiContext& context);

}  // namespace pagoda
