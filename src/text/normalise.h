#pragma once
// normalise: brings a conversation into a shape that a template shows whole, so that nothing a client says is
// lost. It looks at the template's traits and never at the text, and changes no message for the sake of one
// behind it: the prompt of a turn stays the beginning of the next one's, for the prefix cache.
// Source: what vLLM's chat utilities and llama.cpp's do before they render.
//
//   developer          system, where the template does not name the role
//   leading systems    one, with an empty line between the texts
//   a later system     stays where the template shows it, else part of the user's turn behind or before it
//   no system at all   part of the first user turn
//   texts in parts     one text, unless the template prints every part for that role
//   null content       an empty text
//   turns that alternate, calls in messages of their own, ids of nine characters: where the template insists
//   calls, results and tools that the template does not know: as text
//
// Threads: any.
#include "text/conversation.h"
#include "text/template_traits.h"

namespace pagoda {

void normalise(Conversation& conversation, const TemplateTraits& traits);

}  // namespace pagoda
