#pragma once
// Sets of strings that no expression spells: those that match each of some expressions and none of others,
// written
// `(?&{"all":[…],"none":[…]})`, which is no expression of any language. XGrammar's automata are intersected
// where it reads an expression of what a JSON string holds. Source: none; XGrammar 0.2.8. Threads: any.
#include <bitset>
#include <string>
#include <string_view>

#include "fsm.h"

namespace pagoda {

inline bool is_string_set(std::string_view expression) { return expression.substr(0, 3) == "(?&"; }

// The automaton of such a set, of the characters that may stand in a JSON string; an error where the set is
// empty, is not written as above, or needs too many states.
xgrammar::Result<xgrammar::FSMWithStartEnd> string_set(const std::string& expression,
                                                       const std::bitset<256>& forbidden_chars);

}  // namespace pagoda
