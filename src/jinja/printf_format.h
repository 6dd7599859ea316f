#pragma once
// Python's `format % values`.
#include "jinja/render.h"

namespace pagoda::jinja {

// `values`: a tuple, a dict for %(name)s, or a single value.
Value format_printf(Render& render, const String& format, const Value& values);

}  // namespace pagoda::jinja
