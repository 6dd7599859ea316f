#pragma once
// TemplateTraits: which conversations a chat template shows whole. probe_template() finds them out once, by
// rendering small conversations of made-up words and looking for the words; normalise.h then brings each
// conversation into a shape that loses nothing. Source: the aims of vLLM's chat utilities and of llama.cpp's
// template capabilities.
// Threads: any; plain data.
#include <string_view>

namespace pagoda {

class ChatTemplate;

struct TemplateTraits {
  // How a role's content may be given: as one text, as a list of parts whose texts are all printed.
  struct Forms {
    bool text = true, parts = false;
    bool any() const { return text || parts; }
  };
  Forms system, user, assistant, tool;
  const Forms& of(std::string_view role) const;

  // Roles.
  bool developer = true;     // the template names the role; else its messages are system messages
  bool other_roles = true;   // messages of any role are shown
  bool function = true;      // results of the role `function` are shown; else they are of the role `tool`
  bool system_later = true;  // system messages behind the first turn are shown where they stand
  bool developer_later = true;
  bool system_alone = true;  // a system message needs no user
  // Turns.
  bool user_pairs = true, assistant_pairs = true;  // two neighbours of one role are shown
  bool user_after_tool = true;                     // a user may speak right after a tool's result
  bool assistant_first = true;                     // a conversation may begin with the assistant
  // Tools.
  enum class CallIds { any, nine_letters, function_and_index };
  bool tools = true, tool_calls = true;
  bool empty_tools = false;  // without tools it wants an empty list, not null
  // A tool without these fails to render.
  bool needs_description = false, needs_parameters = false, needs_property_descriptions = false;
  bool null_content = false;      // calls are shown only where the content is null
  bool calls_beside_text = true;  // a message shows both its text and its calls, and so behind later turns
  bool calls_behind_text = true;  // a message of calls may follow one of text
  bool calls_together = true;     // a message shows several calls
  bool object_arguments = true;   // arguments may be an object
  bool text_arguments = true;     // arguments may be any text
  // How ids of calls must look: nine letters and digits (Mistral), or `functions.NAME:INDEX`, where the
  // template shows a function's name by the id alone (Kimi K2).
  CallIds call_ids = CallIds::any;
};

// A template that does not even show a user's texts has the default traits: it is given everything as it is.
// So has one that takes more than 200 ms of the thread's own time.
TemplateTraits probe_template(const ChatTemplate& chat_template);

}  // namespace pagoda
