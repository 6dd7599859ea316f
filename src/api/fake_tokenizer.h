#pragma once
// FakeTokenizer, for tests only: each byte is a token (id = byte), <s> is 256, </s> is 257, the special token
// "<x>" is 258, and "word" is 259. Decoding concatenates the bytes.
#include "api/json.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

class FakeTokenizer : public Tokenizer {
 public:
  static constexpr TokenId kBos = 256, kEos = 257, kSpecial = 258, kWord = 259;

  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const override {
    std::vector<TokenId> ids;
    if (options.add_special_tokens) ids.push_back(kBos);
    for (std::size_t i = 0; i < text.size();) {
      bool plain = !options.parse_special;
      for (const ByteRange& range : options.plain_ranges)
        plain = plain || (i >= range.begin && i < range.end);
      if (!plain && text.substr(i).starts_with("<x>")) {
        ids.push_back(kSpecial);
        i += 3;
      } else if (text.substr(i).starts_with("word")) {
        ids.push_back(kWord);
        i += 4;
      } else {
        ids.push_back(static_cast<unsigned char>(text[i++]));
      }
    }
    return ids;
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override {
    std::string out;
    for (const TokenId id : ids)
      if (id >= 0 && id < vocab_size() && !(skip_special_tokens && is_special(id)))
        out.append(token_bytes(id));
    return to_valid_utf8(out);
  }
  std::int32_t vocab_size() const override { return 260; }
  std::string token_string(TokenId id) const override { return token_bytes(id); }
  std::string token_bytes(TokenId id) const override {
    switch (id) {
      case kBos:
        return "<s>";
      case kEos:
        return "</s>";
      case kSpecial:
        return "<x>";
      case kWord:
        return "word";
      default:
        return std::string(1, static_cast<char>(id));
    }
  }
  std::optional<TokenId> find(std::string_view token) const override {
    for (TokenId id = 0; id < vocab_size(); ++id)
      if (token_bytes(id) == token) return id;
    return std::nullopt;
  }
  bool is_special(TokenId id) const override { return id >= kBos && id <= kSpecial; }
  TokenId bos() const override { return kBos; }
  TokenId eos() const override { return kEos; }
};

}  // namespace pagoda
