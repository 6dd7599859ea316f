#pragma once
// Parses a JSON object from a model's file, or from a user's substitute for one.
#include <boost/json.hpp>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// corrupt_data, starting with `what`: not well-formed, or not an object.
Result<boost::json::object> parse_json_object(std::string_view text, std::string_view what);

// Returns the object of a config.json that holds the language model's fields separately; null if absent or
// empty.
const boost::json::object* language_part(const boost::json::object& config);
boost::json::object* language_part(boost::json::object& config);

}  // namespace pagoda
