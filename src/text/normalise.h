#pragma once
// normalise: converts a conversation to a shape that a template shows completely, as vLLM and llama.cpp do.
// Decisions depend on the template's traits, never on later messages, so a turn's prompt stays a prefix of
// the next turn's. Threads: any.
//   * developer becomes system if the template lacks the role; leading system messages are merged; a later
//     one stays in place if the template shows it there, otherwise it joins the user's turn; without any
//     system role it joins the first user turn;
//   * content parts become one text unless the template prints every part; null content becomes empty; where
//     the template requires it, turns alternate, calls get their own message and ids get nine characters;
//     calls, results and tools that the template does not support become text.
#include "text/conversation.h"
#include "text/template_traits.h"

namespace pagoda {

void normalise(Conversation& conversation, const TemplateTraits& traits);

}  // namespace pagoda
