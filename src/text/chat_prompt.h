#pragma once
// render_chat: turns a conversation into a prompt, as transformers' apply_chat_template does and with the
// message preparation of vLLM. Knows no protocol (api/) and does not tokenize.
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/conversation.h"
#include "text/template_context.h"

namespace pagoda {

// True for names that a template relies on; chat_template_kwargs must not set them.
bool is_reserved_template_name(std::string_view name);

// First normalises the conversation to a shape that the template shows completely (normalise.h).
// `chat_template` null: invalid_argument that names --chat-template; there is no default template, because a
// wrong one fails silently. Other errors: invalid_argument with a param() that names a field of Conversation
// ("messages", "continue_final_message", "chat_template_kwargs.NAME").
Result<RenderedText> render_chat(const ChatTemplate* chat_template, Conversation conversation,
                                 const TemplateTokens& tokens);

}  // namespace pagoda
