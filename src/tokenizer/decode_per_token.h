#pragma once
// Decode steps that map each token independently, as a function of the token and its index. Most of
// decode_words.cc and part of decode_chunks.cc consist of these. Private to the decode steps.
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tokenizer/decoder.h"

namespace pagoda {

// Replaces every `from` in `text` by `to`; an empty `from` never matches.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

// `index` counts the tokens of the stream; starts at 1 in mid-text.
using TokenFunction = std::function<std::string(std::string_view token, std::size_t index)>;
class PerToken final : public DecodeStep {
 public:
  PerToken(const TokenFunction& function, DecodePosition position)
      : function_(function), index_(position.at_start ? 0 : 1) {}
  void push(std::string_view token) override { next_->push(function_(token, index_++)); }
  void finish() override { next_->finish(); }
  void settle() override { next_->settle(); }

 private:
  const TokenFunction& function_;
  std::size_t index_;
};

// The same if all tokens are chunks of a single token: waits for all of them. Rare.
class WholeText final : public DecodeStep {
 public:
  WholeText(const TokenFunction& function, DecodePosition position)
      : function_(function), index_(position.at_start ? 0 : 1) {}
  void push(std::string_view chunk) override { text_ += chunk; }
  void finish() override {
    next_->push(function_(text_, index_));
    text_.clear();
    next_->finish();
  }

 private:
  const TokenFunction& function_;
  std::size_t index_;
  std::string text_;
};

class PerTokenMaker final : public DecodeStepMaker {
 public:
  explicit PerTokenMaker(TokenFunction function) : function_(std::move(function)) {}
  std::unique_ptr<DecodeStep> make(DecodePosition position, bool fused) const override {
    if (fused) return std::make_unique<WholeText>(function_, position);
    return std::make_unique<PerToken>(function_, position);
  }

 private:
  TokenFunction function_;
};

inline DecodeStepMakerPtr per_token(TokenFunction function) {
  return std::make_unique<PerTokenMaker>(std::move(function));
}

}  // namespace pagoda
