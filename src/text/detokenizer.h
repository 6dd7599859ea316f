#pragma once
// IncrementalDetokenizer: converts ids to text piece by piece. The concatenated pieces equal decode() of all
// ids, and no piece ends inside a character. Does not match stop strings (stop_matcher.h).
#include <memory>
#include <span>
#include <string>

#include "tokenizer/tokenizer.h"

namespace pagoda {

class IncrementalDetokenizer {
 public:
  // `prompt` provides context for the first piece (SentencePiece's leading space); only its end is kept.
  IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
                         std::span<const TokenId> prompt = {});

  std::string push(TokenId id);  // returns the text that is now certain; may be empty
  std::string finish();          // returns the text held back, with incomplete bytes as U+FFFD

 private:
  std::unique_ptr<TokenTextStream> stream_;
};

}  // namespace pagoda
