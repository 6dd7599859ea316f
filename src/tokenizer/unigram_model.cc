// Unigram: the segmentation with the highest sum of scores, by the Viterbi algorithm.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "tokenizer/byte_trie.h"
#include "tokenizer/token_model.h"

namespace pagoda {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr float kRebase = 100000.0F;  // sums beyond this restart at 0 to keep their precision

template <class Score>
class Unigram final : public TokenModel {
 public:
  Unigram(const Vocabulary& vocabulary, UnigramOptions options)
      : vocabulary_(vocabulary), options_(std::move(options)) {
    if (options_.byte_fallback) byte_ids_ = byte_tokens(vocabulary);
    Score lowest = std::numeric_limits<Score>::infinity();
    std::vector<std::pair<std::string_view, std::int32_t>> entries;
    for (TokenId id = 0; id < vocabulary.end_id(); ++id) {
      if (!vocabulary.contains(id)) continue;
      const auto score = static_cast<Score>(options_.scores[static_cast<std::size_t>(id)]);
      const bool counted = options_.usable.empty() || options_.usable[static_cast<std::size_t>(id)];
      if (counted && !is_user_defined(id)) lowest = std::min(lowest, score);
      if (counted && !vocabulary.is_hidden(id)) entries.emplace_back(vocabulary.token(id), id);
    }
    unknown_score_ = static_cast<Score>(lowest - kUnknownPenalty);
    trie_ = ByteTrie(std::move(entries));
  }

  bool encode(std::string_view piece, std::vector<TokenId>& ids) const override {
    struct Node {
      TokenId id = -1;
      std::uint32_t length = 0;  // length of the piece that ends here; 0: none so far
      Score score = 0;           // score of the best path that ends here
    };
    std::vector<Node> ends(piece.size() + 1);
    std::size_t frontier = 0;  // the last end reached so far
    for (std::size_t at = 0; at < piece.size();) {
      if (options_.single_precision && std::abs(ends[at].score) > kRebase) {
        const Score offset = ends[at].score;
        for (std::size_t end = at; end <= frontier; ++end) ends[end].score -= offset;
      }
      const Score here = ends[at].score;
      const std::size_t character = std::min<std::size_t>(utf8_length(piece[at]), piece.size() - at);
      bool has_single = false;
      const auto offer = [&](std::size_t length, TokenId id, Score score) {
        Node& node = ends[at + length];
        frontier = std::max(frontier, at + length);
        const Score candidate = score + here;
        if (node.length == 0 || candidate > node.score)
          node = {id, static_cast<std::uint32_t>(length), candidate};
      };
      trie_.for_each_prefix(piece.substr(at), [&](std::size_t length, std::int32_t id) {
        const Score score = is_user_defined(id)
                                ? static_cast<Score>(0.1 * static_cast<double>(length - 1))
                                : static_cast<Score>(options_.scores[static_cast<std::size_t>(id)]);
        offer(length, id, score);
        has_single |= length == character;
      });
      if (!has_single) offer(character, options_.unknown, unknown_score_);
      at += character;
    }
    const std::size_t first = ids.size();
    for (std::size_t end = piece.size(); end > 0;) {  // from the back; reversed below
      std::size_t begin = end - ends[end].length;
      if (ends[end].id != options_.unknown) {
        ids.push_back(ends[end].id);
        end = begin;
        continue;
      }
      // Consecutive unknown characters are one unknown piece.
      while (begin > 0 && ends[begin].id == options_.unknown) begin -= ends[begin].length;
      if (!add_unknown(piece.substr(begin, end - begin), ids)) return false;
      end = begin;
    }
    std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
    return true;
  }

 private:
  // Scored above all others in proportion to its length, so that the longest is chosen.
  bool is_user_defined(TokenId id) const {
    return !options_.user_defined.empty() && options_.user_defined[static_cast<std::size_t>(id)];
  }

  bool add_unknown(std::string_view text, std::vector<TokenId>& ids) const {
    // A fused run may happen to be spelled like a token; handled as in the reference implementation.
    if (!options_.single_precision) {
      if (const auto id = vocabulary_.find_in_text(text)) {
        ids.push_back(*id);
        return true;
      }
    }
    if (!byte_ids_.empty()) {
      bool all = true;
      for (const char byte : text) all &= byte_ids_[static_cast<unsigned char>(byte)] >= 0;
      if (all) {
        for (std::size_t i = text.size(); i > 0; --i)
          ids.push_back(byte_ids_[static_cast<unsigned char>(text[i - 1])]);
        return true;
      }
    }
    if (options_.unknown < 0) return false;
    ids.push_back(options_.unknown);
    return true;
  }

  const Vocabulary& vocabulary_;
  UnigramOptions options_;
  ByteTrie trie_;
  std::vector<TokenId> byte_ids_;
  Score unknown_score_ = 0;
};

}  // namespace

TokenModelPtr make_unigram(const Vocabulary& vocabulary, UnigramOptions options) {
  if (options.single_precision) return std::make_unique<Unigram<float>>(vocabulary, std::move(options));
  return std::make_unique<Unigram<double>>(vocabulary, std::move(options));
}

}  // namespace pagoda
