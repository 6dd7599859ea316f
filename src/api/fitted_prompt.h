#pragma once
// A conversation that may be too long -> prompt tokens that leave room for an answer, by dropping messages
// from its beginning, as OpenAI's truncation "auto" does. System messages at the beginning stay, a call is
// never parted from its results, and the last turn of the user stays. Threads: any.
#include <cstdint>
#include <vector>

#include "api/api_context.h"
#include "api/chat_prompt_tokens.h"
#include "api/warnings.h"
#include "base/status.h"
#include "text/conversation.h"

namespace pagoda {

// `room`: tokens of the answer. Drops as little as it can, and says so in `warnings`. What does not fit even
// then is given as it is: whoever made the conversation is told how long it is.
Result<std::vector<TokenId>> fitted_prompt_tokens(const Conversation& conversation, std::int64_t room,
                                                  const ApiContext& context, const ChatPromptOptions& options,
                                                  Warnings& warnings);

}  // namespace pagoda
