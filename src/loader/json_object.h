#pragma once
// A JSON object of one of a model's files, or one that a user typed in its stead.
#include <boost/json.hpp>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// corrupt_data, which begins with `what` it is: it is not well-formed, or no object.
Result<boost::json::object> parse_json_object(std::string_view text, std::string_view what);

}  // namespace pagoda
