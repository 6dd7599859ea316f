#pragma once
// from_json: the caller's JSON as template values.
#include <boost/json/value.hpp>

#include "jinja/value.h"

namespace pagoda::jinja {

// `user`: strings are marked as the user's text. Throws TemplateError (limit) where it is too deep or large.
Value from_json(const boost::json::value& json, bool user);

}  // namespace pagoda::jinja
