#pragma once
// The positional words of a command: an optional model and an optional text: `pagoda generate "a prompt"`,
// `pagoda generate MODEL "a prompt"`, `cat text
// pagoda generate MODEL`.
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

struct TypedWords {
  std::string model;  // empty: no word names a model
  std::string text;
};

// `first` and `second` as typed; empty if not given. A single word is the text, unless it names a file or
// folder and no flag names the model: then it is the model, and the text comes from standard input.
// invalid_argument: there is no text.
Result<TypedWords> typed_words(const std::string& first, const std::string& second, bool model_given);

// Reads all of standard input, without its last newline. invalid_argument: standard input is a terminal, is
// empty, or has more than 32 MiB.
// `otherwise`: the alternative to suggest in the error message.
Result<std::string> piped_text(std::string_view otherwise);

}  // namespace pagoda
