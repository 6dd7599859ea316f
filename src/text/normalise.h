#pragma once
// normalise: brings a conversation into a shape that a template shows whole, as vLLM and llama.cpp do. It
// decides by the template's traits, never by later messages: a turn's prompt stays a prefix of the next
// one's.
//   * developer becomes system if the template lacks the role; leading systems become one; a later one stays
//     where the template shows it, else joins the user's turn; without any system role it joins the first
//     user turn;
//   * parts become one text unless the template prints every part; null becomes empty; turns alternate, calls
//     stand alone, ids have nine characters where it insists; calls, results and tools that it lacks become
//     text.
// Threads: any.
#include "text/conversation.h"
#include "text/template_traits.h"

namespace pagoda {

void normalise(Conversation& conversation, const TemplateTraits& traits);

}  // namespace pagoda
