#include "loader/json_object.h"

#include <utility>

#include "base/strings.h"

namespace pagoda {

Result<boost::json::object> parse_json_object(std::string_view text, std::string_view what) {
  namespace json = boost::json;
  boost::system::error_code error;
  json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  if (error) return corrupt_data(concat(what, " is not well-formed JSON: ", error.message()));
  if (!value.is_object()) return corrupt_data(concat(what, " is not a JSON object"));
  return std::move(value.get_object());
}

}  // namespace pagoda
