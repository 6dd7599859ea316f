#pragma once
// The arguments of a call as a part of a structural tag, for forms that are not JSON: f(a=1),
// {k:<|"|>v<|"|>}, a tag around each (XGrammar's styles for tags let white space into values). Arguments come
// in the order of the schema, those that are required first. Not the markers around a call
// (text/call_shape.h). Threads: any.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

// A text, and parts behind each other, of a structural tag.
boost::json::value const_string(std::string_view text);
boost::json::value sequence_of(boost::json::array elements);

// Whether this style of CallShape is one of these forms.
bool is_own_style(std::string_view style);

// invalid_argument: the schema asks for what cannot be held, by the keyword's name, as for any schema.
// unimplemented: it can, but not in this form (recursion, keys that are no names, a string's format in bare
// text). `left_out` given: keywords that cannot be held, and parts that cannot be written, are left out and
// named there.
Result<boost::json::value> own_arguments(const boost::json::object& schema, std::string_view style,
                                         std::vector<std::string>* left_out = nullptr);

}  // namespace pagoda
