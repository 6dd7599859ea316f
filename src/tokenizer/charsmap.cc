#include "tokenizer/charsmap.h"

#include "base/assign_or_return.h"
#include "base/utf8.h"
#include "tokenizer/byte_trie.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pieces.h"

namespace pagoda {

Result<Charsmap> Charsmap::parse(std::string_view bytes) {
  Charsmap map;
  if (bytes.empty()) return map;
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i]));
  };
  const auto word = [&](std::size_t i) {
    return byte(i) | byte(i + 1) << 8 | byte(i + 2) << 16 | byte(i + 3) << 24;
  };
  if (bytes.size() < 4) return corrupt_data("precompiled charsmap: it is too short");
  const std::size_t trie_bytes = word(0);
  if (trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > bytes.size() - 4)
    return corrupt_data("precompiled charsmap: its trie size does not fit");
  map.units_.resize(trie_bytes / 4);
  for (std::size_t i = 0; i < map.units_.size(); ++i) map.units_[i] = word(4 + 4 * i);
  map.replacements_ = bytes.substr(4 + trie_bytes);
  if (!is_valid_utf8(map.replacements_))
    return corrupt_data("precompiled charsmap: its replacements are not UTF-8");
  return map;
}

std::optional<Charsmap::Match> Charsmap::search(std::string_view text, bool first) const {
  if (units_.empty()) return std::nullopt;
  const auto offset = [](std::uint32_t unit) {
    return static_cast<std::size_t>((unit >> 10) << ((unit & 1u << 9) >> 6));
  };
  std::optional<Match> best;
  std::size_t node = offset(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0) break;
    node ^= c;
    if (node >= units_.size()) break;
    const std::uint32_t unit = units_[node];
    if ((unit & (1u << 31 | 0xFF)) != c) break;
    node ^= offset(unit);
    const bool whole = i + 1 == text.size() || !is_utf8_continuation(text[i + 1]);
    // A key that ends inside a character would leave the rest of the character.
    if (whole && (unit >> 8 & 1)) {
      if (node >= units_.size()) break;
      const std::size_t at = units_[node] & ~(1u << 31);
      const std::size_t end = at < replacements_.size() ? replacements_.find('\0', at) : std::string::npos;
      if (end != std::string::npos && !is_utf8_continuation(replacements_[at])) {
        best = Match{i + 1, std::string_view(replacements_).substr(at, end - at)};
        if (first) break;
      }
    }
  }
  return best;
}

namespace {

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {}
  Status apply(NormalizedText& text) const override {
    NormalizedText out = text.like();
    const std::string_view in = text.text;
    out.text.reserve(in.size());
    for (std::size_t at = 0; at < in.size();) {
      const std::size_t end = next_grapheme_end(in, at);
      const std::string_view grapheme = in.substr(at, end - at);
      // A short cluster is replaced as a whole even if the map only knows its beginning, as in the reference
      // implementation.
      if (grapheme.size() < 6) {
        if (const auto match = map_.shortest(grapheme)) {
          out.append(match->replacement, text.origin(at));
          at = end;
          continue;
        }
      }
      while (at < end) {
        const std::string_view c = in.substr(at, utf8_length(in[at]));
        const auto match = map_.shortest(c);
        out.append(match ? match->replacement : c, text.origin(at));
        at += c.size();
      }
      if (out.too_long()) return grows_too_much();
    }
    text = std::move(out);
    return ok_status();
  }

 private:
  Charsmap map_;
};

class SentencePiece final : public Normalizer {
 public:
  SentencePiece(Charsmap map, SentencePieceOptions options)
      : map_(std::move(map)), options_(std::move(options)) {
    std::vector<std::pair<std::string_view, std::int32_t>> symbols;
    for (const std::string& symbol : options_.user_defined) symbols.emplace_back(symbol, 0);
    if (!symbols.empty()) user_defined_ = ByteTrie(std::move(symbols));
  }

  Status apply(NormalizedText& text) const override {
    NormalizedText out = text.like();
    const std::string_view in = text.text;
    const std::string_view space = options_.escape_whitespaces ? kMetaspace : std::string_view(" ");
    std::size_t at = 0;
    if (options_.remove_extra_whitespaces) {
      while (at < in.size()) {
        const Charsmap::Match match = prefix(in.substr(at));
        if (match.replacement != " ") break;
        at += match.length;
      }
    }
    const bool prefixed = options_.add_dummy_prefix && !options_.whitespace_as_suffix;
    if (at < in.size()) {
      if (prefixed) out.append(space, text.origin(at));
      bool after_space = options_.remove_extra_whitespaces;
      while (at < in.size()) {
        const Charsmap::Match match = prefix(in.substr(at));
        std::string_view piece = match.replacement;
        while (after_space && !piece.empty() && piece[0] == ' ') piece.remove_prefix(1);
        for (const char& c : piece) out.append(c == ' ' ? space : std::string_view(&c, 1), text.origin(at));
        if (!piece.empty()) after_space = piece.back() == ' ';
        if (!options_.remove_extra_whitespaces) after_space = false;
        at += match.length;
        if (out.too_long()) return grows_too_much();
      }
      if (options_.remove_extra_whitespaces) {
        while (out.text.ends_with(space)) {
          out.text.resize(out.text.size() - space.size());
          if (out.tracked) out.origins.resize(out.text.size());
        }
      }
      if (options_.add_dummy_prefix && options_.whitespace_as_suffix)
        out.append(space, text.origin(in.size() - 1));
    }
    text = std::move(out);
    return ok_status();
  }

 private:
  Charsmap::Match prefix(std::string_view text) const {
    std::size_t symbol = 0;
    user_defined_.for_each_prefix(text, [&](std::size_t length, std::int32_t) { symbol = length; });
    if (symbol > 0) return {symbol, text.substr(0, symbol)};
    if (const auto match = map_.longest(text)) return *match;
    const std::size_t length = utf8_length(text[0]);
    return {length, text.substr(0, length)};
  }
  Charsmap map_;
  SentencePieceOptions options_;
  ByteTrie user_defined_;
};

}  // namespace

Result<NormalizerPtr> make_precompiled_normalizer(std::string_view charsmap) {
  PAGODA_ASSIGN_OR_RETURN(Charsmap map, Charsmap::parse(charsmap));
  return NormalizerPtr(std::make_unique<Precompiled>(std::move(map)));
}

Result<NormalizerPtr> make_sentencepiece_normalizer(SentencePieceOptions options) {
  PAGODA_ASSIGN_OR_RETURN(Charsmap map, Charsmap::parse(options.charsmap));
  options.charsmap.clear();
  return NormalizerPtr(std::make_unique<SentencePiece>(std::move(map), std::move(options)));
}

}  // namespace pagoda
