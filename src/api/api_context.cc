#include "api/api_context.h"

#include <algorithm>

namespace pagoda {

void ApiContext::make_ready() {
  CHECK(tokenizer != nullptr && !model_names.empty() && max_model_len > 0);
  vocab_size = std::max(vocab_size, 1);
  // A normalizer may merge characters (NFC), so leave room below the vocabulary's own longest token.
  longest_token_bytes = 32;
  for (TokenId id = 0; id < tokenizer->vocab_size(); ++id)
    longest_token_bytes = std::max(longest_token_bytes, tokenizer->token_string(id).size());
}

}  // namespace pagoda
