#pragma once
// jinja2's tests (`x is defined`), by name. Each returns a boolean.
#include <string_view>

#include "jinja/value.h"

namespace pagoda::jinja {

NativeFunction find_test(std::string_view name);  // null if there is none
bool is_test(std::string_view name);

}  // namespace pagoda::jinja
