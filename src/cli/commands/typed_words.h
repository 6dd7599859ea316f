#pragma once
// Words that people type after a command: a model and a text, either of them left out. `pagoda generate "a
// prompt"`, `pagoda generate MODEL "a prompt"`, `cat text | pagoda generate MODEL`.
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

struct TypedWords {
  std::string model;  // empty: no word names it
  std::string text;
};

// `first` and `second` as they stood; empty: not given. One word alone is the text, unless it names a file or
// folder and no flag names the model: then it is the model, and the text comes from standard input.
// invalid_argument: no text from anywhere.
Result<TypedWords> typed_words(const std::string& first, const std::string& second, bool model_given);

// All of standard input, without its last newline. invalid_argument: a terminal, nothing, or more than 32
// MiB.
// `otherwise`: what else there is to give, for the message.
Result<std::string> piped_text(std::string_view otherwise);

}  // namespace pagoda
