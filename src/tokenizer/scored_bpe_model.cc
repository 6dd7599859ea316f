// SentencePiece's byte-pair encoding: the merge order follows the pieces' scores, and any two adjacent
// symbols whose concatenation is a piece may merge.
#include <algorithm>
#include <bit>
#include <unordered_map>

#include "base/utf8.h"
#include "tokenizer/pieces.h"
#include "tokenizer/token_model.h"
#include "tokenizer/word_cache.h"

namespace pagoda {
namespace {

class ScoredBpe final : public TokenModel {
 public:
  ScoredBpe(const Vocabulary& vocabulary, ScoredBpeOptions options)
      : vocabulary_(vocabulary), options_(std::move(options)) {
    if (options_.byte_fallback) byte_ids_ = byte_tokens(vocabulary);
    for (TokenId id = 0; id < vocabulary.end_id(); ++id) {
      const std::string_view token = vocabulary.token(id);
      if (!mergeable(id)) continue;
      max_piece_bytes_ = std::max(max_piece_bytes_, token.size());
      for (std::size_t at = token.find(kMetaspace, 1); at != std::string_view::npos;
           at = token.find(kMetaspace, at + 1))
        if (!token.substr(0, at).ends_with(kMetaspace)) cuts_before_metaspace_ = false;
    }
    has_unused_ = std::find(options_.unused.begin(), options_.unused.end(), true) != options_.unused.end();
  }

  bool encode(std::string_view piece, std::vector<TokenId>& ids) const override {
    bool after_unknown = false;
    if (!cuts_before_metaspace_) return encode_word(piece, ids, after_unknown);
    std::size_t begin = 0, at = piece.find(kMetaspace, 1);
    while (at != std::string_view::npos) {
      if (!piece.substr(0, at).ends_with(kMetaspace)) {
        if (!encode_word(piece.substr(begin, at - begin), ids, after_unknown)) return false;
        begin = at;
      }
      at = piece.find(kMetaspace, at + kMetaspace.size());
    }
    return encode_word(piece.substr(begin), ids, after_unknown);
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Symbol {
    std::uint32_t begin, length;  // length 0: merged away
    std::uint32_t previous, next;
  };
  struct Candidate {
    std::uint32_t order;  // rank of the score; the smallest is best
    std::uint32_t left, length;
    bool operator>(const Candidate& other) const {
      return order != other.order ? order > other.order : left > other.left;
    }
  };
  struct Halves {
    std::string_view left, right;
  };
  using Parts = std::unordered_map<std::string_view, Halves>;

  bool mergeable(TokenId id) const {
    return static_cast<std::size_t>(id) < options_.can_merge.size() &&
           options_.can_merge[static_cast<std::size_t>(id)];
  }
  std::optional<TokenId> find(std::string_view text) const {
    const auto id = text.size() <= max_piece_bytes_ ? vocabulary_.find(text) : std::nullopt;
    return id && mergeable(*id) ? id : std::nullopt;
  }
  std::uint32_t order(TokenId id) const {
    const auto at = static_cast<std::size_t>(id);
    const float score = at < options_.scores.size() ? options_.scores[at] : 0.0f;
    const auto bits = std::bit_cast<std::uint32_t>(score);
    return bits >> 31 ? bits : 0x7FFFFFFFu - bits;  // monotone: a higher score gives a smaller number
  }
  bool is_unused(TokenId id) const {
    return static_cast<std::size_t>(id) < options_.unused.size() &&
           options_.unused[static_cast<std::size_t>(id)];
  }

  bool encode_word(std::string_view word, std::vector<TokenId>& ids, bool& after_unknown) const {
    if (word.size() > WordCache::kMaxBytes) return merge_word(word, ids, after_unknown);
    const WordCache cache(number_, word);
    if (cache.get(ids)) {
      after_unknown = false;
      return true;
    }
    const std::size_t before = ids.size();
    if (!merge_word(word, ids, after_unknown)) return false;
    // An unknown piece's ids depend on the piece before it.
    const std::span<const TokenId> made(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
    if (!made.empty() && !after_unknown &&
        std::find(made.begin(), made.end(), options_.unknown) == made.end())
      cache.put(made);
    return true;
  }

  bool merge_word(std::string_view word, std::vector<TokenId>& ids, bool& after_unknown) const {
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t length = utf8_length(word[at]);
      const auto i = static_cast<std::uint32_t>(symbols.size());
      symbols.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(length), i - 1, i + 1});
      at += length;
    }
    if (symbols.empty()) return true;
    symbols[0].previous = symbols.back().next = kNone;
    std::vector<Candidate> heap;
    Parts parts;  // the halves from which unused pieces were merged
    const auto consider = [&](std::uint32_t left) {
      const std::uint32_t right = symbols[left].next;
      const std::uint32_t length = symbols[left].length + symbols[right].length;
      const std::string_view text = word.substr(symbols[left].begin, length);
      const auto id = find(text);
      if (!id) return false;
      heap.push_back({order(*id), left, length});
      if (has_unused_ && is_unused(*id))
        parts[text] = {text.substr(0, symbols[left].length), text.substr(symbols[left].length)};
      return true;
    };
    for (std::uint32_t i = 0; i + 1 < symbols.size(); ++i) consider(i);
    std::make_heap(heap.begin(), heap.end(), std::greater<>());
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      const Candidate best = heap.back();
      heap.pop_back();
      Symbol& left = symbols[best.left];
      if (left.length == 0 || left.next == kNone) continue;
      Symbol& right = symbols[left.next];
      if (left.length + right.length != best.length) continue;  // stale: one of the two has grown since
      left.length += right.length;
      right.length = 0;
      left.next = right.next;
      if (left.next != kNone) symbols[left.next].previous = best.left;
      if (left.previous != kNone && consider(left.previous))
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
      if (symbols[best.left].next != kNone && consider(best.left))
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
    for (std::uint32_t i = 0; i != kNone; i = symbols[i].next)
      if (!emit(word.substr(symbols[i].begin, symbols[i].length), parts, ids, after_unknown)) return false;
    return true;
  }

  bool emit(std::string_view text, const Parts& parts, std::vector<TokenId>& ids, bool& after_unknown) const {
    const auto id = find(text);
    if (id && is_unused(*id)) {
      // Each half is shorter, so this ends; its depth is bounded by the longest piece.
      if (const auto it = parts.find(text); it != parts.end())
        return emit(it->second.left, parts, ids, after_unknown) &&
               emit(it->second.right, parts, ids, after_unknown);
    }
    if (id) {
      ids.push_back(*id);
      after_unknown = false;
      return true;
    }
    if (!byte_ids_.empty()) {
      bool all = true;
      for (const char byte : text) all &= byte_ids_[static_cast<unsigned char>(byte)] >= 0;
      if (all) {
        for (const char byte : text) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
        after_unknown = false;
        return true;
      }
    }
    if (options_.unknown < 0) return false;
    if (!after_unknown) ids.push_back(options_.unknown);
    after_unknown = true;
    return true;
  }

  const Vocabulary& vocabulary_;
  ScoredBpeOptions options_;
  std::vector<TokenId> byte_ids_;
  std::uint64_t number_ = WordCache::new_owner();
  std::size_t max_piece_bytes_ = 0;
  bool cuts_before_metaspace_ = true, has_unused_ = false;
};

}  // namespace

TokenModelPtr make_scored_bpe(const Vocabulary& vocabulary, ScoredBpeOptions options) {
  return std::make_unique<ScoredBpe>(vocabulary, std::move(options));
}

}  // namespace pagoda
