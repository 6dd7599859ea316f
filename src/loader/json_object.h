#pragma once
// A JSON object of one of a model's files, or one that a user typed in its stead.
#include <boost/json.hpp>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// corrupt_data, which begins with `what` it is: it is not well-formed, or no object.
Result<boost::json::object> parse_json_object(std::string_view text, std::string_view what);

// The object of a config.json that has the language model's fields apart from the rest; null: there is none,
// or an empty one.
const boost::json::object* language_part(const boost::json::object& config);
boost::json::object* language_part(boost::json::object& config);

}  // namespace pagoda
