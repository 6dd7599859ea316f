#pragma once
// StopMatcher: finds the first stop string in a growing text, and holds back text that may be the start of
// one, so that no part of a stop string is ever emitted.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

class StopMatcher {
 public:
  StopMatcher(std::vector<std::string> stop_strings, bool include_in_output);

  struct Outcome {
    std::string text;                        // safe to emit now
    std::optional<std::string> stop_string;  // set once: the text ends here
  };
  // `may_stop` is false until min_tokens is reached; matches are then ignored.
  Outcome push(std::string_view text, bool may_stop = true);
  std::string finish();  // the text ended for another reason: returns the text held back

 private:
  std::vector<std::string> stop_strings_;
  bool include_in_output_;
  std::string held_;
};

}  // namespace pagoda
