#include "api/logprob_writer.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace pagoda {

float writable_logprob(float logprob) {
  return std::isfinite(logprob) ? std::max(logprob, -9999.0f) : -9999.0f;
}

std::string written_token(TokenId token, const Tokenizer& tokenizer, bool as_id) {
  return as_id ? concat("token_id:", token) : to_valid_utf8(tokenizer.token_bytes(token));
}

void write_token_logprobs(JsonWriter& writer, const TokenLogprobs& token, const Tokenizer& tokenizer,
                          LogprobForm form) {
  const auto begin = [&](const TokenLogprob& each) {
    writer.begin_object();
    if (form.with_ids) writer.key("id").integer(each.token);
    writer.key("token").string(written_token(each.token, tokenizer, form.tokens_as_ids));
    if (form.as_probabilities)
      writer.key("prob").float32(std::exp(writable_logprob(each.logprob)));
    else
      writer.key("logprob").float32(writable_logprob(each.logprob));
    writer.key("bytes").begin_array();
    for (const char byte : tokenizer.token_bytes(each.token))
      writer.integer(static_cast<unsigned char>(byte));
    writer.end_array();
  };
  begin(token.chosen);
  if (form.with_top) {
    writer.key(form.as_probabilities ? "top_probs" : "top_logprobs").begin_array();
    for (const TokenLogprob& top : token.top) {
      begin(top);
      writer.end_object();
    }
    writer.end_array();
  }
  writer.end_object();
}

}  // namespace pagoda
