#pragma once
// CustomInput: extracts the input of a custom tool from the arguments {"input": "…"} in which the model
// writes it, as they stream in. Arguments of any other form are passed through unchanged. Not a JSON parser.
// Invariant: the concatenated output does not depend on where the arguments were cut. Threads: none.
#include <string>
#include <string_view>

namespace pagoda {

class CustomInput {
 public:
  // Returns the text that has become certain with this piece of the arguments.
  std::string push(std::string_view arguments);
  // Ends the arguments and returns the text held back.
  std::string finish();

 private:
  enum class State { before, inside, behind, other };

  State state_ = State::before;
  std::string held_;  // undecided: the opening before the text, or an incomplete escape
};

}  // namespace pagoda
