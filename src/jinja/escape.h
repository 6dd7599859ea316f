#pragma once
// HTML escaping as markupsafe does it, and what undoes it.
#include <string>

#include "jinja/string_builder.h"

namespace pagoda::jinja {

void append_escaped(StringBuilder& out, const String& text);
std::string strip_tags(const std::string& text);  // Markup.striptags

}  // namespace pagoda::jinja
