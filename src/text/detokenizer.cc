#include "text/detokenizer.h"

#include "base/utf8.h"

namespace pagoda {
namespace {

// The number of prompt tokens that can affect the text: the bytes of a character, the token before a repeated
// one.
constexpr std::size_t kMinContext = 16, kMaxContext = 256;

// For tokenizers without their own decoder (fakes in tests): concatenates bytes.
class BytesStream final : public TokenTextStream {
 public:
  BytesStream(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}
  void push(TokenId id, std::string& out) override {
    if (skip_special_tokens_ && tokenizer_.is_special(id)) return;
    repair_.push(tokenizer_.token_bytes(id), out);
  }
  void finish(std::string& out) override { repair_.finish(out); }
  void settle(std::string&) override {}

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  Utf8LossyStream repair_;
};

}  // namespace

std::unique_ptr<TokenTextStream> Tokenizer::text_stream(bool skip_special_tokens) const {
  return std::make_unique<BytesStream>(*this, skip_special_tokens);
}

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
                                               std::span<const TokenId> prompt)
    : stream_(tokenizer.text_stream(skip_special_tokens)) {
  // The end of the prompt, with at least one token that has text: otherwise the stream would treat the
  // following text as the beginning of a text.
  std::size_t length = 0;
  bool has_text = false;
  while (length < prompt.size() && length < kMaxContext && (length < kMinContext || !has_text)) {
    ++length;
    has_text |= !tokenizer.is_special(prompt[prompt.size() - length]);
  }
  std::string ignored;
  for (const TokenId id : prompt.last(length)) stream_->push(id, ignored);
  if (length > 0) stream_->settle(ignored);
}

std::string IncrementalDetokenizer::push(TokenId id) {
  std::string out;
  stream_->push(id, out);
  return out;
}

std::string IncrementalDetokenizer::finish() {
  std::string out;
  stream_->finish(out);
  return out;
}

}  // namespace pagoda
