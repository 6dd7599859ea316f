#pragma once
// TokenModel: the part of a tokenizer that turns one piece of text into ids. Byte-pair encoding, Unigram,
// WordPiece and WordLevel implement it.
// Source: Hugging Face `tokenizers`, models/; SentencePiece bpe_model.cc and unigram_model.cc.
// Threads: any; encode() is const. BPE keeps a bounded cache of words per thread.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/vocabulary.h"

namespace pagoda {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the ids of one piece of well-formed UTF-8. False if the vocabulary cannot spell it and has no
  // unknown token.
  [[nodiscard]] virtual bool encode(std::string_view piece, std::vector<TokenId>& ids) const = 0;
};

using TokenModelPtr = std::unique_ptr<TokenModel>;

struct BpeOptions {
  // Pieces are raw bytes and the vocabulary spells them in the byte-level alphabet.
  bool byte_level = false;
  bool byte_fallback = false;  // characters without a token become <0xNN> tokens
  bool fuse_unknown = false;
  bool ignore_merges = false;    // a piece that is a token needs no merges
  bool skip_bad_merges = false;  // ignore merges of tokens that are not in the vocabulary
  std::string unknown_token = {}, continuing_subword_prefix = {}, end_of_word_suffix = {};  // may be empty
};
// Pairs of left and right, best first. The strings only need to live during the call.
using MergeList = std::vector<std::pair<std::string_view, std::string_view>>;
// `vocabulary` must outlive the model. corrupt_data naming the first merge that does not fit.
Result<TokenModelPtr> make_bpe(const Vocabulary& vocabulary, const MergeList& merges, BpeOptions options);

// BPE that merges the pair whose joint piece has the lowest token id: tiktoken's algorithm, whose files list
// no merges.
TokenModelPtr make_ranked_bpe(const Vocabulary& vocabulary, BpeOptions options);

// BPE that merges the pair whose joint piece has the highest score: SentencePiece's algorithm.
struct ScoredBpeOptions {
  std::vector<float> scores;    // by id
  std::vector<bool> can_merge;  // by id: may be the result of a merge (normal, user defined, unused)
  std::vector<bool> unused;     // by id: split again at the end
  TokenId unknown = -1;
  bool byte_fallback = false;
};
TokenModelPtr make_scored_bpe(const Vocabulary& vocabulary, ScoredBpeOptions options);

struct UnigramOptions {
  std::vector<double> scores;      // by id
  std::vector<bool> usable;        // by id; empty: all
  std::vector<bool> user_defined;  // by id; empty: none
  TokenId unknown = -1;
  bool byte_fallback = false;
  bool single_precision = false;  // add scores in float, as SentencePiece does
};
TokenModelPtr make_unigram(const Vocabulary& vocabulary, UnigramOptions options);

struct WordPieceOptions {
  std::string unknown_token = "[UNK]", continuing_subword_prefix = "##", word_prefix;
  std::size_t max_input_chars_per_word = 100;
};
TokenModelPtr make_word_piece(const Vocabulary& vocabulary, WordPieceOptions options);
TokenModelPtr make_word_level(const Vocabulary& vocabulary, std::string unknown_token);

// The ids of <0x00> to <0xFF>; -1 where there is no token.
std::vector<TokenId> byte_tokens(const Vocabulary& vocabulary);

}  // namespace pagoda
