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

}  // namespace pagoda
