#pragma once
// Fits a conversation and its answer into the context by dropping the oldest messages, as OpenAI's truncation
// "auto" does. Leading system messages and the user's last turn are kept, and a call is never separated from
// its results. Threads: any.
#include <cstdint>
#include <vector>

#include "api/api_context.h"
#include "api/chat_prompt_tokens.h"
#include "api/warnings.h"
#include "base/status.h"
#include "text/conversation.h"

namespace pagoda {

// `room`: number of tokens to leave for the answer. Drops as few messages as possible and reports them in
// `warnings`. If nothing fits, returns the tokens of the whole conversation, so that the caller's error
// states its length.
Result<std::vector<TokenId>> fitted_prompt_tokens(const Conversation& conversation, std::int64_t room,
                                                  const ApiContext& context, const ChatPromptOptions& options,
                                                  Warnings& warnings);

}  // namespace pagoda
