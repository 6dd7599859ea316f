#pragma once
// TemplateTraits: which conversations a chat template shows completely. probe_template() determines them
// once, by rendering small conversations of made-up words and searching the output for these words;
// normalise.h then converts each conversation to a shape that loses nothing. Modelled on vLLM's chat
// utilities and llama.cpp's template capabilities.
// Threads: any; plain data.
#include <string_view>

namespace pagoda {

class ChatTemplate;

struct TemplateTraits {
  // Accepted forms of a role's content: one text, or a list of parts whose texts are all printed.
  struct Forms {
    bool text = true, parts = false;
    bool any() const { return text || parts; }
  };
  Forms system, user, assistant, tool;
  const Forms& of(std::string_view role) const;

  // Roles.
  bool developer = true;     // the template names the role; otherwise its messages become system messages
  bool other_roles = true;   // messages of any role are shown
  bool function = true;      // results with role `function` are shown; otherwise they get the role `tool`
  bool system_later = true;  // system messages after the first turn are shown in place
  bool developer_later = true;
  bool system_alone = true;  // a system message may stand without a user message
  // Turns.
  bool user_pairs = true, assistant_pairs = true;  // two consecutive messages of the role are shown
  bool user_after_tool = true;                     // a user message may directly follow a tool's result
  bool assistant_first = true;                     // a conversation may begin with the assistant
  // Tools.
  enum class CallIds { any, nine_letters, function_and_index };
  bool tools = true, tool_calls = true;
  bool empty_tools = false;  // without tools, the template expects an empty list rather than null
  // A tool without these fails to render.
  bool needs_description = false, needs_parameters = false, needs_property_descriptions = false;
  bool null_content = false;      // calls are shown only if the content is null
  bool calls_beside_text = true;  // a message shows both its text and its calls, and later turns still do
  bool calls_behind_text = true;  // a message of calls may follow one of text
  bool calls_together = true;     // a message shows several calls
  bool object_arguments = true;   // arguments may be an object
  bool text_arguments = true;     // arguments may be any text
  // The required form of call ids: nine letters and digits (Mistral), or `functions.NAME:INDEX` where the
  // template derives the function's name from the id alone (Kimi K2).
  CallIds call_ids = CallIds::any;
};

// A template that does not even show a user's text gets the default traits: conversations are passed to it
// unchanged. The same holds for a template that takes more than 200 ms of the thread's CPU time.
TemplateTraits probe_template(const ChatTemplate& chat_template);

}  // namespace pagoda
