// Decode steps that join words: they remove what a tokenizer put between or into them.
#include "tokenizer/decode_per_token.h"
#include "tokenizer/decode_steps.h"

namespace pagoda {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found = from.empty() ? std::string_view::npos : text.find(from);
       found != std::string_view::npos; found = text.find(from, at)) {
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
  }
  out += text.substr(at);
  return out;
}
namespace {

// Removes the spaces that English word pieces leave before punctuation and contractions.
std::string clean_up(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = replace_all(text, from, to);
  return text;
}
// Removes the last token's end-of-word suffix, and replaces that of the others by a space.
class BpeSuffix final : public DecodeStep {
 public:
  explicit BpeSuffix(const std::string& suffix) : suffix_(suffix) {}
  void push(std::string_view token) override {
    if (has_held_) next_->push(replace_all(held_, suffix_, " "));
    held_ = token;
    has_held_ = true;
  }
  void finish() override {
    if (has_held_) next_->push(replace_all(held_, suffix_, ""));
    has_held_ = false;
    next_->finish();
  }
  void settle() override {  // the prompt passes on its last word's space, or nothing
    if (has_held_ && held_.ends_with(suffix_))
      held_ = suffix_;
    else
      has_held_ = false;
    next_->settle();
  }

 private:
  const std::string& suffix_;
  std::string held_;
  bool has_held_ = false;
};

class BpeSuffixMaker final : public DecodeStepMaker {
 public:
  explicit BpeSuffixMaker(std::string suffix)
      : suffix_(std::move(suffix)),
        whole_([this](std::string_view token, std::size_t) { return replace_all(token, suffix_, ""); }) {}
  std::unique_ptr<DecodeStep> make(DecodePosition position, bool fused) const override {
    if (fused) return std::make_unique<WholeText>(whole_, position);
    return std::make_unique<BpeSuffix>(suffix_);
  }

 private:
  std::string suffix_;
  TokenFunction whole_;
};

class Ctc final : public DecodeStep {
 public:
  explicit Ctc(const TokenFunction& function) : function_(function) {}
  void push(std::string_view token) override {
    if (any_ && token == previous_) return;
    any_ = true;
    previous_ = token;
    const std::string text = function_(token, 0);
    if (!text.empty()) next_->push(text);
  }
  void finish() override { next_->finish(); }
  void settle() override { next_->settle(); }

 private:
  const TokenFunction& function_;
  std::string previous_;
  bool any_ = false;
};

class CtcMaker final : public DecodeStepMaker {
 public:
  CtcMaker(std::string pad, std::string delimiter, bool cleanup)
      : function_([pad = std::move(pad), delimiter = std::move(delimiter), cleanup](std::string_view token,
                                                                                    std::size_t) {
          std::string text = replace_all(token, pad, "");
          return cleanup ? replace_all(clean_up(std::move(text)), delimiter, " ") : text;
        }) {}
  std::unique_ptr<DecodeStep> make(DecodePosition position, bool fused) const override {
    if (fused) return std::make_unique<WholeText>(function_, position);
    return std::make_unique<Ctc>(function_);
  }

 private:
  TokenFunction function_;
};

}  // namespace

DecodeStepMakerPtr make_metaspace_decoder(std::string replacement, bool drops_first) {
  return per_token(
      [replacement = std::move(replacement), drops_first](std::string_view token, std::size_t index) {
        return replace_all(token, replacement, index == 0 && drops_first ? "" : " ");
      });
}
DecodeStepMakerPtr make_word_piece_decoder(std::string prefix, bool cleanup) {
  return per_token([prefix = std::move(prefix), cleanup](std::string_view token, std::size_t index) {
    std::string text;
    if (index == 0)
      text = token;
    else if (token.starts_with(prefix))
      text = token.substr(prefix.size());
    else
      text.append(" ").append(token);
    return cleanup ? clean_up(std::move(text)) : text;
  });
}
DecodeStepMakerPtr make_bpe_decoder(std::string suffix) {
  return std::make_unique<BpeSuffixMaker>(std::move(suffix));
}
DecodeStepMakerPtr make_ctc_decoder(std::string pad_token, std::string word_delimiter, bool cleanup) {
  return std::make_unique<CtcMaker>(std::move(pad_token), std::move(word_delimiter), cleanup);
}
DecodeStepMakerPtr make_replace_decoder(Regex pattern, std::string content) {
  // std::function requires a copyable target; a Regex is move-only.
  auto shared = std::make_shared<const Regex>(std::move(pattern));
  return per_token([shared, content = std::move(content)](std::string_view token, std::size_t) {
    std::string out;
    shared->for_each_part(token, [&](std::size_t begin, std::size_t end, bool is_match) {
      out += is_match ? std::string_view(content) : token.substr(begin, end - begin);
    });
    return out;
  });
}
DecodeStepMakerPtr make_join_decoder(std::string separator) {
  return per_token([separator = std::move(separator)](std::string_view token, std::size_t index) {
    std::string out;
    if (index > 0) out = separator;
    out += token;
    return out;
  });
}

}  // namespace pagoda
