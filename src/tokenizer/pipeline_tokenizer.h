#pragma once
// PipelineTokenizer: the Tokenizer built by all sources, assembled from parts:
//
//     text -> added tokens -> normalizer -> pre-tokenizer -> model -> post-processor -> ids
//     ids -> token strings -> decoder -> text
//
// Source: Hugging Face `tokenizers`, tokenizer/mod.rs.
// Threads: any once built; all const.
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_model.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace pagoda {

struct TokenizerParts {
  std::unique_ptr<Vocabulary> vocabulary;  // the model refers to it
  TokenModelPtr model;
  NormalizerPtr normalizer;       // may be null
  PreTokenizerPtr pre_tokenizer;  // may be null
  AddedTokens added;              // built
  PostProcessor post_processor;
  Decoder decoder;
  TokenId bos = -1, eos = -1;
  bool needs_origins = false;  // the pre-tokenizer needs to know what starts the original text
  // The encoding that token_bytes reverses.
  enum class Bytes { none, byte_level, byte_fallback } bytes = Bytes::none;
};

class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(TokenizerParts parts);

  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options) const override;
  Result<EncodedPair> encode_pair(std::string_view first, std::string_view second) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  std::unique_ptr<TokenTextStream> text_stream(bool skip_special_tokens) const override;
  std::int32_t vocab_size() const override { return vocab_size_; }
  std::string token_string(TokenId id) const override;
  std::string token_bytes(TokenId id) const override;
  std::optional<TokenId> find(std::string_view token) const override;
  bool is_special(TokenId id) const override;
  TokenId bos() const override { return parts_.bos; }
  TokenId eos() const override { return parts_.eos; }

 private:
  class Encoding;
  class Stream;
  bool exists(TokenId id) const { return parts_.vocabulary->contains(id) || parts_.added.find(id); }
  std::string_view decode_spelling(TokenId id) const;

  TokenizerParts parts_;
  std::int32_t vocab_size_ = 0;
  std::vector<bool> special_;  // by id
};

}  // namespace pagoda
