#pragma once
// The items of `input` (messages, reasoning, calls of tools and their outputs) -> messages of a Conversation,
// and the same items as a client is shown them later. One table says what each type of item is. What no text
// can be made of (another provider's compaction, a picture that was made) is left out with a warning.
// Threads: none.
#include <boost/json/array.hpp>
#include <string_view>
#include <vector>

#include "api/declared_tools.h"
#include "api/field_reader.h"
#include "api/warnings.h"
#include "text/conversation.h"

namespace pagoda {

// A text is one message of the user; a list is itself. What is wrong is said through `fields`, under `name`.
boost::json::array read_input(FieldReader& fields, std::string_view name);

// Adds the tools that items declare (additional_tools, what a tool search has found).
void read_item_tools(FieldReader& fields, std::string_view name, const boost::json::array& items,
                     DeclaredTools& tools, Warnings& warnings);

// Appends the messages that `items` are. One turn of the assistant may be several items. `tools`: settled.
void append_messages(FieldReader& fields, std::string_view name, const boost::json::array& items,
                     const DeclaredTools& tools, Warnings& warnings, std::vector<ChatMessage>& out);

// Each item with an id and a status, messages with their content as a list of parts.
boost::json::array shown_items(const boost::json::array& items, std::string_view response_id);

}  // namespace pagoda
