#pragma once
// CustomInput: the text that a model gives to a custom tool, out of the arguments {"input": "…"} in which it
// writes it, as far as they have come. Arguments of any other form are given as they are. Not a JSON parser.
// Invariant: the pieces joined do not depend on where the arguments were cut. Threads: none.
#include <string>
#include <string_view>

namespace pagoda {

class CustomInput {
 public:
  // Returns the text that is certain after this piece of the arguments.
  std::string push(std::string_view arguments);
  // The arguments are over: what was held back.
  std::string finish();

 private:
  enum class State { before, inside, behind, other };

  State state_ = State::before;
  std::string held_;  // not decided yet: what comes before the text, or the beginning of an escape
};

}  // namespace pagoda
