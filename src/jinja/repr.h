#pragma once
// Values as text: Python's str() and repr(). Text from context strings stays marked as user text.
#include "jinja/render.h"

namespace pagoda::jinja {

void append_string(Render& render, StringBuilder& out, const Value& value);  // str(value)
void append_repr(Render& render, StringBuilder& out, const Value& value);    // repr(value)
Value to_string(Render& render, const Value& value);        // str(value); a plain string, never Markup
Value to_soft_string(Render& render, const Value& value);   // the same, but Markup stays Markup
std::string quote(std::string_view text, bool ascii_only);  // repr() of a str

}  // namespace pagoda::jinja
