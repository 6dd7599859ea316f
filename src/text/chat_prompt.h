#pragma once
// render_chat: a checked chat request as a prompt, as transformers' apply_chat_template makes it and as vLLM
// prepares messages for it. Not the checking of the request's fields (api/), and no tokens.
// Threads: any.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "text/chat_template.h"

namespace pagoda {

struct ChatInput {
  // OpenAI messages; content is text, null, or a list of {"type": "text", "text": …}.
  boost::json::array messages;
  boost::json::value tools;      // null or a list
  boost::json::value documents;  // null or a list
  boost::json::object template_kwargs;
  std::string bos_token, eos_token;
  bool add_generation_prompt = true;
  // The prompt ends where the last message's content ends, so that the model goes on with it.
  bool continue_final_message = false;
};

// What a template may rely on, so that chat_template_kwargs must not set it.
bool is_reserved_template_name(std::string_view name);

// Content lists go to the template as they are where it loops over content, else as one text, joined by line
// breaks; text becomes a list only where the template loops and never asks whether it has a text.
// `chat_template` null: invalid_argument that names --chat-template; a model without a template gets no
// default, because a wrong one fails silently. Other errors: invalid_argument with the field as param().
Result<RenderedText> render_chat(const ChatTemplate* chat_template, ChatInput input);

}  // namespace pagoda
