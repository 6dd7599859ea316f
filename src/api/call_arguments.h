#pragma once
// Builds the structural-tag part for the arguments of a tool call, for styles that are not JSON: f(a=1),
// {k:<|"|>v<|"|>}, a tag around each argument (XGrammar's own tag styles let white space into values).
// Arguments follow the order of the schema, required ones first. The markers around a call are in
// text/call_shape.h. Threads: any.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

// Structural-tag parts: a constant text, and a sequence of parts.
boost::json::value const_string(std::string_view text);
boost::json::value sequence_of(boost::json::array elements);

// Whether this CallShape style is one that own_arguments() writes.
bool is_own_style(std::string_view style);

// invalid_argument: no grammar can enforce the schema; the message names the keyword. unimplemented: a
// grammar could enforce it, but not in this style (recursion, keys that are not names, a string format in
// bare text). If `left_out` is given, such keywords and parts are left out and named there instead.
Result<boost::json::value> own_arguments(const boost::json::object& schema, std::string_view style,
                                         std::vector<std::string>* left_out = nullptr);

}  // namespace pagoda
