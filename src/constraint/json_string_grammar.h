#pragma once
// A grammar of a text -> the grammar of the same text inside a JSON string: quotes, backslashes and control
// characters are written as escapes. For tools whose only argument is a text of a grammar. Not a compiler:
// the grammar is XGrammar's EBNF as it prints it. Threads: any.
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// invalid_argument: it uses what no text inside a string can be made of (tokens, tag dispatch, attributes).
Result<std::string> json_string_grammar(std::string_view ebnf);

}  // namespace pagoda
