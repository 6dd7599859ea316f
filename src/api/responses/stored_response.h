#pragma once
// The record of a /v1/responses call in the AnswerStore: the response as it was answered, and the
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
  std::size_t first_of_call = 0;  // those before are of earlier calls
};
std::string to_text(const StoredConversation& conversation);
StoredConversation conversation_of(const StoredAnswer& stored);
// Its items with those of the answer behind them.
boost::json::array conversation_after(const StoredAnswer& stored);
// The id of the response that took or gave an item of this id; empty: it is no id of ours.
std::string response_of_item(std::string_view item_id);
// Nothing: it has no such item.
std::optional<boost::json::object> item_of(const StoredAnswer& stored, std::string_view item_id);
// The response with another status.
std::string with_status(const StoredAnswer& stored, std::string_view status);

}  // namespace pagoda
