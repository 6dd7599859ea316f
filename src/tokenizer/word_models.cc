// WordPiece (greedy longest match, BERT's) and WordLevel (whole words).
#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/token_model.h"

namespace pagoda {
namespace {

class WordPiece final : public TokenModel {
 public:
  WordPiece(const Vocabulary& vocabulary, WordPieceOptions options)
      : vocabulary_(vocabulary),
        options_(std::move(options)),
        unknown_(vocabulary.find(options_.unknown_token).value_or(-1)) {}

  bool encode(std::string_view piece, std::vector<TokenId>& ids) const override {
    std::size_t num_chars = 0;
    for (const char byte : piece) num_chars += !is_utf8_continuation(byte);
    if (num_chars > options_.max_input_chars_per_word) return add_unknown(ids);
    const std::size_t first = ids.size();
    std::string candidate;
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::string& prefix = begin > 0 ? options_.continuing_subword_prefix : options_.word_prefix;
      std::size_t end = std::min(piece.size(), begin + vocabulary_.max_token_bytes());
      while (end < piece.size() && is_utf8_continuation(piece[end])) --end;
      std::optional<TokenId> found;
      while (end > begin) {  // try the longest token first
        candidate = prefix;
        candidate += piece.substr(begin, end - begin);
        found = vocabulary_.find_in_text(candidate);
        if (found) break;
        end = previous_character(piece, end);
      }
      if (!found) {
        ids.resize(first);
        return add_unknown(ids);
      }
      ids.push_back(*found);
      begin = end;
    }
    return true;
  }

 private:
  bool add_unknown(std::vector<TokenId>& ids) const {
    if (unknown_ < 0) return false;
    ids.push_back(unknown_);
    return true;
  }
  const Vocabulary& vocabulary_;
  WordPieceOptions options_;
  TokenId unknown_;
};

class WordLevel final : public TokenModel {
 public:
  WordLevel(const Vocabulary& vocabulary, const std::string& unknown_token)
      : vocabulary_(vocabulary), unknown_(vocabulary.find(unknown_token).value_or(-1)) {}

  bool encode(std::string_view piece, std::vector<TokenId>& ids) const override {
    const TokenId id = vocabulary_.find_in_text(piece).value_or(unknown_);
    if (id < 0) return false;
    ids.push_back(id);
    return true;
  }

 private:
  const Vocabulary& vocabulary_;
  TokenId unknown_;
};

}  // namespace

TokenModelPtr make_word_piece(const Vocabulary& vocabulary, WordPieceOptions options) {
  return std::make_unique<WordPiece>(vocabulary, std::move(options));
}
TokenModelPtr make_word_level(const Vocabulary& vocabulary, std::string unknown_token) {
  return std::make_unique<WordLevel>(vocabulary, unknown_token);
}

}  // namespace pagoda
