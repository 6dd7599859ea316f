// Any bytes as a tokenizer.json: read, then used to encode, decode and stream a text.
// links: text
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/utf8.h"
#include "text/detokenizer.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pagoda;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = Tokenizer::from_json(json);
  if (!tokenizer) return tokenizer.error().message().empty() ? std::abort(), 0 : 0;
  // A text of every sort, and the file itself.
  constexpr std::string_view kText =
      "The  caf\xC3\xA9's <s> 1234\r\n\n \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x99\x82 a\xCC\x81\xE2\x96\x81_";
  for (const std::string_view text : {kText, json.substr(0, valid_utf8_prefix(json))}) {
    const std::array<ByteRange, 1> plain = {{{text.size() / 3, text.size() / 2}}};
    (void)(*tokenizer)->encode(text, {.plain_ranges = plain});
    const auto ids = (*tokenizer)->encode(text, {.add_special_tokens = true});
    if (!ids) continue;
    const std::string whole = (*tokenizer)->decode(*ids, false);
    IncrementalDetokenizer detokenizer(**tokenizer, false);
    std::string joined;
    for (const TokenId id : *ids) {
      const std::string piece = detokenizer.push(id);
      if (!is_valid_utf8(piece)) std::abort();
      joined += piece;
      (void)(*tokenizer)->token_bytes(id);
    }
    joined += detokenizer.finish();
    if (joined != whole || !is_valid_utf8(whole)) std::abort();
  }
  return 0;
}
