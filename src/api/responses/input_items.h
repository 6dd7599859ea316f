#pragma once
// Converts the items of `input` (messages, reasoning, tool calls and their outputs) to messages of a
// Conversation, and to the form in which clients retrieve them. One table classifies the types of items.
// Items without text (another provider's compaction, a generated image) are left out with a warning. Threads:
// none.
#include <boost/json/array.hpp>
#include <string_view>
#include <vector>

#include "api/declared_tools.h"
#include "api/field_reader.h"
#include "api/warnings.h"
#include "text/conversation.h"

namespace pagoda {

// Reads field `name`: a string becomes one user message; a list is returned unchanged. Errors are reported
// through `fields`.
boost::json::array read_input(FieldReader& fields, std::string_view name);

// Adds the tools that items declare (additional_tools, results of a tool search).
void read_item_tools(FieldReader& fields, std::string_view name, const boost::json::array& items,
                     DeclaredTools& tools, Warnings& warnings);

// Appends the messages of `items`. One assistant turn may consist of several items. `tools`: settled.
void append_messages(FieldReader& fields, std::string_view name, const boost::json::array& items,
                     const DeclaredTools& tools, Warnings& warnings, std::vector<ChatMessage>& out);

// Returns the items, each with an id and a status, and messages with their content as a list of parts.
boost::json::array shown_items(const boost::json::array& items, std::string_view response_id);

}  // namespace pagoda
