#pragma once
// Python's str.format as in the sandbox: fields go through Render::attribute and Render::item.
#include "jinja/render.h"

namespace pagoda::jinja {

Value format_string(Render& render, const String& format, const Arguments& arguments);
// format(value, spec)
Value format_field(Render& render, const Value& value, std::string_view spec);

}  // namespace pagoda::jinja
