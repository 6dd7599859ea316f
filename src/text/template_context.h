#pragma once
// template_context: a conversation as the variables of a chat template, in the form of transformers'
// apply_chat_template. Threads: any.
#include <boost/json/object.hpp>
#include <string>

#include "text/conversation.h"

namespace pagoda {

struct TemplateTokens {
  std::string bos, eos;  // as text; empty if the model has none
};

// Shows everything exactly as in `conversation`, which is consumed.
boost::json::object template_context(Conversation conversation, const TemplateTokens& tokens);

}  // namespace pagoda
