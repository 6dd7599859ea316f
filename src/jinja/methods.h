#pragma once
// The methods of Python's built-in types that templates may call. Methods that change a list or dict are
// known, so that accessing one is a security error, as in the immutable sandbox.
#include <string_view>

#include "jinja/filters.h"
#include "jinja/value.h"

namespace pagoda::jinja {

const NamedFunction* find_method(const Value& object, std::string_view name);  // null if there is none
bool is_changing_method(const Value& object, std::string_view name);

const NamedFunction* find_string_method(std::string_view name);
const NamedFunction* find_string_question(std::string_view name);  // isalpha() and the like

}  // namespace pagoda::jinja
