#pragma once
// render_chat: a conversation as a prompt, as transformers' apply_chat_template makes it and as vLLM prepares
// messages for it. Knows no protocol (api/), and makes no tokens.
// Threads: any.
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/conversation.h"

namespace pagoda {

struct TemplateTokens {
  std::string bos, eos;  // as text; empty where the model has none
};

// What a template may rely on, so that chat_template_kwargs must not set it.
bool is_reserved_template_name(std::string_view name);

// Content lists go to the template as they are where it loops over content, else as one text, joined by line
// breaks; text becomes a list only where the template loops and never asks whether it has a text.
// `chat_template` null: invalid_argument that names --chat-template; a model without a template gets no
// default, because a wrong one fails silently. Other errors: invalid_argument with a param() in the words of
// Conversation ("messages", "continue_final_message", "chat_template_kwargs.NAME").
Result<RenderedText> render_chat(const ChatTemplate* chat_template, Conversation conversation,
                                 const TemplateTokens& tokens);

}  // namespace pagoda
