// Byte-pair encoding with ranked merges (GPT-2's and, over characters, that of converted SentencePiece
// models).
#include <array>
#include <memory>

#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/bpe_merge.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/pieces.h"
#include "tokenizer/token_model.h"
#include "tokenizer/word_cache.h"

namespace pagoda {
namespace {

class Bpe final : public TokenModel {
 public:
  Bpe(const Vocabulary& vocabulary, BpeOptions options)
      : vocabulary_(vocabulary), options_(std::move(options)), number_(WordCache::new_owner()) {
    byte_ids_.fill(-1);
    if (options_.byte_level) {
      for (std::size_t byte = 0; byte < 256; ++byte)
        if (const auto id = vocabulary.find(byte_level_alphabet()[byte])) byte_ids_[byte] = *id;
    } else if (options_.byte_fallback) {
      fallback_ids_ = byte_tokens(vocabulary);
    }
    if (!options_.unknown_token.empty()) unknown_ = vocabulary.find(options_.unknown_token).value_or(-1);
  }

  Status add_merges(const MergeList& merges) {
    merges_.reserve(merges.size());
    const std::size_t prefix = options_.continuing_subword_prefix.size();
    std::string joined;
    TokenId guess = 0;
    bool cuts = !options_.byte_level && prefix == 0 && options_.end_of_word_suffix.empty() &&
                vocabulary_.find(kMetaspace).has_value();
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const auto [left, right] = merges[rank];
      const auto left_id = vocabulary_.find(left), right_id = vocabulary_.find(right);
      std::optional<TokenId> joined_id;
      if (left_id && right_id && right.size() >= prefix) {
        joined.assign(left);
        joined += right.substr(prefix);
        // Most files list tokens in the order of their merges.
        if (vocabulary_.token(guess) == joined)
          joined_id = guess;
        else
          joined_id = vocabulary_.find(joined);
      }
      if (!joined_id) {
        if (options_.skip_bad_merges) continue;
        return corrupt_data(concat("tokenizer: merge ", rank, " ('", left, "' and '", right,
                                   "') is not spelled with tokens of the vocabulary"));
      }
      guess = *joined_id + 1;
      if (vocabulary_.is_hidden(*joined_id)) continue;
      merges_.set(*left_id, *right_id, {static_cast<std::uint32_t>(rank), *joined_id});
      if (cuts && right.starts_with(kMetaspace) && !left.ends_with(kMetaspace)) cuts = false;
    }
    cuts_before_metaspace_ = cuts;
    return ok_status();
  }

  // Adds every pair of tokens whose concatenation is a token.
  void add_all_merges() {
    for (TokenId id = 0; id < vocabulary_.end_id(); ++id) {
      const std::string_view token = vocabulary_.token(id);
      for (std::size_t at = 0; at < token.size();) {
        at += utf8_length(token[at]);
        if (at >= token.size()) break;
        const auto left = vocabulary_.find(token.substr(0, at));
        const auto right = left ? vocabulary_.find(token.substr(at)) : std::nullopt;
        if (right) merges_.set(*left, *right, {static_cast<std::uint32_t>(id), id});
      }
    }
  }

  bool encode(std::string_view piece, std::vector<TokenId>& ids) const override {
    if (piece.empty()) return true;
    if (options_.ignore_merges) {
      std::optional<TokenId> whole;
      if (!options_.byte_level) {
        whole = vocabulary_.find_in_text(piece);
      } else if (piece.size() <= vocabulary_.max_token_bytes()) {
        std::string spelled;
        append_byte_level(spelled, piece);
        whole = vocabulary_.find_in_text(spelled);
      }
      if (whole) {
        ids.push_back(*whole);
        return true;
      }
    }
    if (!cuts_before_metaspace_) return encode_word(piece, ids);
    // No merge joins a space mark to the text before it, so words can be merged one by one.
    std::size_t begin = 0, at = piece.find(kMetaspace, 1);
    while (at != std::string_view::npos) {
      if (!piece.substr(0, at).ends_with(kMetaspace)) {
        if (!encode_word(piece.substr(begin, at - begin), ids)) return false;
        begin = at;
      }
      at = piece.find(kMetaspace, at + kMetaspace.size());
    }
    return encode_word(piece.substr(begin), ids);
  }

 private:
  bool encode_word(std::string_view word, std::vector<TokenId>& ids) const {
    if (word.size() > WordCache::kMaxBytes) {
      std::vector<TokenId> symbols;
      if (!merge_word(word, symbols)) return false;
      ids.insert(ids.end(), symbols.begin(), symbols.end());
      return true;
    }
    const WordCache cache(number_, word);
    if (cache.get(ids)) return true;
    thread_local std::vector<TokenId> symbols;
    symbols.clear();
    if (!merge_word(word, symbols)) return false;
    ids.insert(ids.end(), symbols.begin(), symbols.end());
    cache.put(symbols);
    return true;
  }

  bool merge_word(std::string_view word, std::vector<TokenId>& symbols) const {
    symbols.reserve(word.size());
    if (!(options_.byte_level ? add_bytes(word, symbols) : add_characters(word, symbols))) return false;
    merge_row(symbols, [this](TokenId left, TokenId right) { return merges_.find(left, right); });
    return true;
  }

  // Unknown characters: dropped if there is no unknown token; a run of them may share one. The reference
  // implementation emits the token only when a known character or the end follows.
  class Unknowns {
   public:
    explicit Unknowns(const Bpe& model) : model_(model) {}
    bool add(std::vector<TokenId>& symbols) {
      if (model_.options_.unknown_token.empty()) return true;
      if (model_.unknown_ < 0) return false;
      if (!model_.options_.fuse_unknown) flush(symbols);
      pending_ = true;
      return true;
    }
    void flush(std::vector<TokenId>& symbols) {
      if (pending_) symbols.push_back(model_.unknown_);
      pending_ = false;
    }

   private:
    const Bpe& model_;
    bool pending_ = false;
  };

  bool add_bytes(std::string_view word, std::vector<TokenId>& symbols) const {
    Unknowns unknowns(*this);
    for (const char byte : word) {
      const TokenId id = byte_ids_[static_cast<unsigned char>(byte)];
      if (id >= 0) {
        unknowns.flush(symbols);
        symbols.push_back(id);
      } else if (!unknowns.add(symbols)) {
        return false;
      }
    }
    unknowns.flush(symbols);
    return true;
  }

  bool add_characters(std::string_view word, std::vector<TokenId>& symbols) const {
    const bool decorated =
        !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
    Unknowns unknowns(*this);
    std::string spelled;
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t begin = at;
      at += utf8_length(word[at]);
      std::string_view character = word.substr(begin, at - begin);
      if (decorated) {
        spelled.clear();
        if (begin > 0) spelled += options_.continuing_subword_prefix;
        spelled += character;
        if (at == word.size()) spelled += options_.end_of_word_suffix;
        character = spelled;
      }
      if (const auto id = vocabulary_.find_in_text(character)) {
        unknowns.flush(symbols);
        symbols.push_back(*id);
        continue;
      }
      if (!fallback_ids_.empty()) {
        bool all = true;
        for (const char byte : character) all &= fallback_ids_[static_cast<unsigned char>(byte)] >= 0;
        if (all) {
          for (const char byte : character)
            symbols.push_back(fallback_ids_[static_cast<unsigned char>(byte)]);
          continue;
        }
      }
      if (!unknowns.add(symbols)) return false;
    }
    unknowns.flush(symbols);
    return true;
  }

  const Vocabulary& vocabulary_;
  BpeOptions options_;
  std::uint64_t number_;
  PairMap merges_;
  std::array<TokenId, 256> byte_ids_;
  std::vector<TokenId> fallback_ids_;
  TokenId unknown_ = -1;
  bool cuts_before_metaspace_ = false;
};

}  // namespace

std::vector<TokenId> byte_tokens(const Vocabulary& vocabulary) {
  std::vector<TokenId> ids(256, -1);
  constexpr char kHex[] = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const std::array<char, 6> name = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
    if (const auto id = vocabulary.find({name.data(), name.size()})) ids[byte] = *id;
  }
  return ids;
}

TokenModelPtr make_ranked_bpe(const Vocabulary& vocabulary, BpeOptions options) {
  auto model = std::make_unique<Bpe>(vocabulary, std::move(options));
  model->add_all_merges();
  return model;
}

Result<TokenModelPtr> make_bpe(const Vocabulary& vocabulary, const MergeList& merges, BpeOptions options) {
  auto model = std::make_unique<Bpe>(vocabulary, std::move(options));
  if (Status status = model->add_merges(merges); !status.ok()) return status;
  return TokenModelPtr(std::move(model));
}

}  // namespace pagoda
