#pragma once
// HTML escaping as in markupsafe, and its inverse.
#include <string>

#include "jinja/string_builder.h"

namespace pagoda::jinja {

void append_escaped(StringBuilder& out, const String& text);
std::string strip_tags(const std::string& text);  // Markup.striptags

}  // namespace pagoda::jinja
