#include "loader/json_overrides.h"

#include <boost/json.hpp>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// As deep as `more`, which the parser bounds.
void merge(json::object& into, const json::object& more) {
  for (const auto& [key, value] : more) {
    json::value* old = into.if_contains(key);
    if (value.is_null())
      into.erase(key);
    else if (old != nullptr && old->is_object() && value.is_object())
      merge(old->get_object(), value.get_object());
    else
      into[key] = value;
  }
}

}  // namespace

Result<std::string> with_overrides(std::string_view text, std::string_view overrides) {
  if (overrides.empty()) return std::string(text);
  boost::system::error_code error;
  const json::value more = json::parse(json::string_view(overrides.data(), overrides.size()), error);
  if (error) return invalid_argument(concat("the overrides are not well-formed JSON: ", error.message()));
  if (!more.is_object()) return invalid_argument("the overrides are not a JSON object");
  json::value whole = json::parse(json::string_view(text.data(), text.size()), error);
  if (error || !whole.is_object()) return corrupt_data("the file that is overridden is not a JSON object");
  merge(whole.get_object(), more.get_object());
  return json::serialize(whole);
}

std::string without_pooling_keys(std::string_view overrides) {
  boost::system::error_code error;
  json::value value = json::parse(json::string_view(overrides.data(), overrides.size()), error);
  if (error || !value.is_object()) return std::string(overrides);
  json::object& object = value.get_object();
  if (object.contains("classifier_from_token")) object.erase("architectures");
  object.erase("classifier_from_token");
  object.erase("is_original_qwen3_reranker");
  return object.empty() ? std::string() : json::serialize(value);
}

}  // namespace pagoda
