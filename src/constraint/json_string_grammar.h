#pragma once
// Converts a grammar for a text to the grammar for the same text inside a JSON string, where quotes,
// backslashes and control characters are escaped. For tools whose only argument is a text with a grammar. Not
// a compiler: the grammar is XGrammar's EBNF as XGrammar prints it. Threads: any.
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// invalid_argument if the grammar uses constructs that cannot occur inside a string (tokens, tag dispatch,
// attributes).
Result<std::string> json_string_grammar(std::string_view ebnf);

}  // namespace pagoda
