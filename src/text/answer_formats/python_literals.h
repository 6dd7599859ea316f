#pragma once
// Calls and literals in Python syntax: f(a=1, b='x', c=[None, {'k': True}]). Nothing is evaluated. Also
// accepts JSON's null, true and false, and hyphens in function names. Source: Python's lexical rules for
// strings and numbers; vLLM's pythonic parsers, which accept only keyword arguments. Threads: any.
#include <boost/json/value.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "text/answer_formats/answer_stage.h"

namespace pagoda::answer {

std::optional<boost::json::value> parse_python_literal(std::string_view text);

// "f(a=1), g()", separated by commas or newlines. nullopt if any part is something else, or there is no call.
std::optional<std::vector<WrittenCall>> parse_python_calls(std::string_view text);

}  // namespace pagoda::answer
