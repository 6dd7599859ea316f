#pragma once
// render_chat: a conversation as a prompt, as transformers' apply_chat_template makes it and as vLLM prepares
// messages for it. Knows no protocol (api/), and makes no tokens.
// Threads: any.
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/conversation.h"
#include "text/template_context.h"

namespace pagoda {

// Names that a template relies on, so that chat_template_kwargs must not set them.
bool is_reserved_template_name(std::string_view name);

// The conversation is brought into the shape that the template shows whole first (normalise.h).
// `chat_template` null: invalid_argument that names --chat-template; a model without a template gets no
// default, because a wrong one fails silently. Other errors: invalid_argument with a param() in the words of
// Conversation ("messages", "continue_final_message", "chat_template_kwargs.NAME").
Result<RenderedText> render_chat(const ChatTemplate* chat_template, Conversation conversation,
                                 const TemplateTokens& tokens);

}  // namespace pagoda
