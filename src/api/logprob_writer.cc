#include "api/logprob_writer.h"

#include <algorithm>
#include <cmath>

namespace pagoda {

float writable_logprob(float logprob) {
  return std::isfinite(logprob) ? std::max(logprob, -9999.0f) : -9999.0f;
}

void write_token_logprob(JsonWriter& writer, const TokenLogprob& token, std::string_view text,
                         std::string_view bytes) {
  writer.key("token").string(text).key("logprob").float32(writable_logprob(token.logprob));
  writer.key("bytes").begin_array();
  for (const char byte : bytes) writer.integer(static_cast<unsigned char>(byte));
  writer.end_array();
}

void write_token_logprobs(JsonWriter& writer, const TokenLogprobs& token, const Tokenizer& tokenizer,
                          LogprobForm form) {
  const auto begin = [&](const TokenLogprob& each) {
    const std::string bytes = tokenizer.token_bytes(each.token);
    writer.begin_object();
    if (form.with_ids) writer.key("id").integer(each.token);
    write_token_logprob(writer, each, to_valid_utf8(bytes), bytes);
  };
  begin(token.chosen);
  if (form.with_top) {
    writer.key("top_logprobs").begin_array();
    for (const TokenLogprob& top : token.top) {
      begin(top);
      writer.end_object();
    }
    writer.end_array();
  }
  writer.end_object();
}

}  // namespace pagoda
