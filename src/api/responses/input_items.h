#pragma once
// The items of `input` (messages, reasoning, function calls and their outputs) -> messages of a Conversation,
// and the same items as a client is shown them later. Kinds of items that are for tools which OpenAI runs are
// refused by name. Threads: any.
#include <boost/json/array.hpp>
#include <string_view>
#include <vector>

#include "api/field_reader.h"
#include "text/conversation.h"

namespace pagoda {

// A text is one message of the user; a list is itself. What is wrong is said through `fields`, under `name`.
boost::json::array read_input(FieldReader& fields, std::string_view name);

// Appends the messages that `items` are. One turn of the assistant may be several items.
void append_messages(FieldReader& fields, std::string_view name, const boost::json::array& items,
                     std::vector<ChatMessage>& out);

// Each item with an id and a status, messages with their content as a list of parts.
boost::json::array shown_items(const boost::json::array& items, std::string_view response_id);

}  // namespace pagoda
