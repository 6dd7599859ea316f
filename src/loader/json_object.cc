#include "loader/json_object.h"

#include <utility>

#include "base/strict_json.h"
#include "base/strings.h"

namespace pagoda {
Result<boost::json::object> parse_json_object(std::string_view text, std::string_view what) {
  namespace json = boost::json;
  boost::system::error_code error;
  json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  if (error) value = json::parse(strict_json(text), error);
  if (error) return corrupt_data(concat(what, " is not well-formed JSON: ", error.message()));
  if (!value.is_object()) return corrupt_data(concat(what, " is not a JSON object"));
  return std::move(value.get_object());
}

const boost::json::object* language_part(const boost::json::object& config) {
  for (const std::string_view name : {"text_config", "llm_config", "language_config"}) {
    const boost::json::value* const part = config.if_contains(name);
    if (part == nullptr || !part->is_object() || part->get_object().empty()) continue;
    const boost::json::object* const inner =
        language_part(part->get_object());  // recursion as deep as the parser allows
    return inner != nullptr ? inner : &part->get_object();
  }
  return nullptr;
}

boost::json::object* language_part(boost::json::object& config) {
  return const_cast<boost::json::object*>(language_part(std::as_const(config)));
}

}  // namespace pagoda
