#include "api/responses/stored_response.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "api/responses/input_items.h"
#include "base/check.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// Parses text that this server wrote. It may be nested deeper than client bodies.
json::value parse_own(const std::string& text) {
  json::parse_options options;
  options.max_depth = 2 * kMaxJsonDepth;
  boost::system::error_code error;
  json::value value = json::parse(text, error, {}, options);
  CHECK(!error && value.is_object());
  return value;
}

}  // namespace

std::string to_text(const StoredConversation& conversation) {
  return json::serialize(json::object{{"items", conversation.items}, {"first", conversation.first_of_call}});
}

StoredConversation conversation_of(const StoredAnswer& stored) {
  json::value value = parse_own(stored.conversation);
  return {.items = std::move(value.at("items").as_array()),
          .first_of_call = value.at("first").to_number<std::size_t>()};
}

json::array conversation_after(const StoredAnswer& stored) {
  json::array items = conversation_of(stored).items;
  const json::value response = parse_own(stored.answer);
  const json::array& output = response.at("output").as_array();
  items.insert(items.end(), output.begin(), output.end());
  return items;
}

std::string response_of_item(std::string_view item_id) {
  const std::size_t begin = item_id.find("_resp_");
  return begin == std::string_view::npos ? std::string() : std::string(item_id.substr(begin + 1));
}

std::optional<json::object> item_of(const StoredAnswer& stored, std::string_view item_id) {
  json::array items = shown_items(conversation_of(stored).items, response_of_item(item_id));
  if (!stored.running) {
    const json::value response = parse_own(stored.answer);
    const json::array& output = response.at("output").as_array();
    items.insert(items.end(), output.begin(), output.end());
  }
  for (json::value& item : items) {
    const json::value* id = item.as_object().if_contains("id");
    if (id != nullptr && id->is_string() && std::string_view(id->as_string()) == item_id)
      return std::move(item.as_object());
  }
  return std::nullopt;
}

std::string with_status(const StoredAnswer& stored, std::string_view status) {
  json::value response = parse_own(stored.answer);
  response.as_object()["status"] = status;
  return json::serialize(response);
}

}  // namespace pagoda
