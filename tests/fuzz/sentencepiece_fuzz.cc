// Any bytes as a SentencePiece tokenizer.model: read, then used to encode and decode a text.
// links: text
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pagoda;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = Tokenizer::from_sentencepiece(bytes);
  if (!tokenizer) return tokenizer.error().message().empty() ? std::abort(), 0 : 0;
  constexpr std::string_view kText =
      "The  caf\xC3\xA9's <s> 1234\r\n\n \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x99\x82 a\xCC\x81\xE2\x96\x81_";
  for (const std::string_view text : {kText, bytes.substr(0, valid_utf8_prefix(bytes))}) {
    const auto ids = (*tokenizer)->encode(text, {.add_special_tokens = true});
    if (ids && !is_valid_utf8((*tokenizer)->decode(*ids, false))) std::abort();
  }
  return 0;
}
