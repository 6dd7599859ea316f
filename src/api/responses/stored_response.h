#pragma once
// The record of a /v1/responses call in the AnswerStore: the response as sent to the client, and the
// conversation that it answers. Threads: any.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer_store.h"

namespace pagoda {

struct StoredConversation {
  boost::json::array items;
  std::size_t first_of_call = 0;  // earlier items belong to earlier calls
};
std::string to_text(const StoredConversation& conversation);
StoredConversation conversation_of(const StoredAnswer& stored);
// The conversation's items followed by those of the answer.
boost::json::array conversation_after(const StoredAnswer& stored);
// The id of the response whose input or output includes the item; empty if this server did not make the item
// id.
std::string response_of_item(std::string_view item_id);
// nullopt if the response has no such item.
std::optional<boost::json::object> item_of(const StoredAnswer& stored, std::string_view item_id);
// The stored response with its status replaced.
std::string with_status(const StoredAnswer& stored, std::string_view status);

}  // namespace pagoda
