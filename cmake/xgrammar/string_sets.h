#pragma once
// Sets of strings that match all of some expressions and none of others, which no single expression can
// describe. They are written `(?&{"all":[…],"none":[…]})`, which is not valid in any regular expression
// language. Wherever XGrammar reads an expression for the content of a JSON string, it accepts such a set and
// intersects the automata. Source: none; XGrammar 0.2.8. Threads: any.
#include <bitset>
#include <string>
#include <string_view>

#include "fsm.h"

namespace pagoda {

inline bool is_string_set(std::string_view expression) { return expression.substr(0, 3) == "(?&"; }

// Returns the automaton of such a set over the characters allowed in a JSON string. An error if the set is
// empty, malformed, or needs too many states.
xgrammar::Result<xgrammar::FSMWithStartEnd> string_set(const std::string& expression,
                                                       const std::bitset<256>& forbidden_chars);

}  // namespace pagoda
