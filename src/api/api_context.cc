#include "api/api_context.h"

#include <algorithm>

#include "base/strings.h"

namespace pagoda {

void ApiContext::make_ready() {
  CHECK(tokenizer != nullptr && !model_names.empty() && max_model_len > 0);
  vocab_size = std::max(vocab_size, 1);
  // A normalizer may merge characters (NFC), so leave room below the vocabulary's own longest token.
  longest_token_bytes = 32;
  for (TokenId id = 0; id < tokenizer->vocab_size(); ++id)
    longest_token_bytes = std::max(longest_token_bytes, tokenizer->token_string(id).size());
}

Status check_model(std::string_view name, const ApiContext& context) {
  if (context.any_model_name) return {};
  if (std::find(context.model_names.begin(), context.model_names.end(), name) != context.model_names.end())
    return {};
  return not_found(concat("The model `", name, "` does not exist."))
      .with_param("model")
      .with_reason("model_not_found");
}

}  // namespace pagoda
