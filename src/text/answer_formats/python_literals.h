#pragma once
// Calls and literals as Python writes them: f(a=1, b='x', c=[None, {'k': True}]). Nothing is evaluated.
// JSON's null, true and false are read too, and names of functions with hyphens. Source: Python's lexical
// rules of strings and numbers; vLLM's pythonic parsers, which read keyword arguments only. Threads: any.
#include <boost/json/value.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "text/answer_formats/answer_stage.h"

namespace pagoda::answer {

std::optional<boost::json::value> parse_python_literal(std::string_view text);

// "f(a=1), g()" with commas or new lines between; nothing where any of it is something else, or there is no
// call.
std::optional<std::vector<WrittenCall>> parse_python_calls(std::string_view text);

}  // namespace pagoda::answer
