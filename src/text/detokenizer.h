#pragma once
// IncrementalDetokenizer: ids in, text out, piece by piece, so that the pieces joined equal decode() of
// all ids, and no piece ends inside a character. Not a stop-string matcher (stop_matcher.h).
#include <memory>
#include <span>
#include <string>

#include "tokenizer/tokenizer.h"

namespace pagoda {

class IncrementalDetokenizer {
 public:
  // `prompt` gives context for the first piece (a leading space of SentencePiece); only its end is kept.
  IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
                         std::span<const TokenId> prompt = {});

  std::string push(TokenId id);  // the text that is now certain; may be empty
  std::string finish();          // text held back; incomplete bytes as U+FFFD

 private:
  std::unique_ptr<TokenTextStream> stream_;
};

}  // namespace pagoda
