#pragma once
// from_json: converts the caller's JSON to template values.
#include <boost/json/value.hpp>

#include "jinja/value.h"

namespace pagoda::jinja {

// `user`: marks strings as user text. Throws TemplateError (limit) if the JSON is too deep or too large.
Value from_json(const boost::json::value& json, bool user);

}  // namespace pagoda::jinja
