#include "text/decoder.h"

#include <algorithm>
#include <functional>

#include "text/byte_level.h"

namespace pagoda {
namespace {

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

// Spaces that English word pieces leave before punctuation and contractions.
std::string clean_up(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = replace_all(text, from, to);
  return text;
}

// A step that turns each token into another on its own. `index` counts tokens of the stream, from 1 in
// mid-text.
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

// The same where all tokens are chunks of one: waits for the whole. Rare.
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

DecodeStepMakerPtr per_token(TokenFunction function) {
  return std::make_unique<PerTokenMaker>(std::move(function));
}

template <class Step, bool kFuses>
class SimpleMaker final : public DecodeStepMaker {
 public:
  std::unique_ptr<DecodeStep> make(DecodePosition, bool) const override { return std::make_unique<Step>(); }
  bool fuses() const override { return kFuses; }
};

// Bytes of the byte-level alphabet, made text as one whole: characters may span tokens.
class ByteLevel final : public DecodeStep {
 public:
  void push(std::string_view token) override {
    bytes_.clear();
    if (!append_from_byte_level(bytes_, token)) bytes_ = token;
    text_.clear();
    repair_.push(bytes_, text_);
    if (!text_.empty()) next_->push(text_);
  }
  void finish() override {
    text_.clear();
    repair_.finish(text_);
    if (!text_.empty()) next_->push(text_);
    next_->finish();
  }
  void settle() override { next_->settle(); }

 private:
  Utf8LossyStream repair_;
  std::string bytes_, text_;
};

int hex(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}
// The byte that a token <0xNN> stands for, or -1.
int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = hex(token[3]), low = hex(token[4]);
  if (token[3] == '+' && low >= 0) return low;  // Rust's number parser takes a sign
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// A run of <0xNN> tokens is one string of bytes: text if it is UTF-8 as a whole, otherwise one U+FFFD for
// each byte. So the run must end before anything of it is certain.
class ByteFallback final : public DecodeStep {
 public:
  void push(std::string_view token) override {
    const int byte = byte_of(token);
    if (byte >= 0) {
      bytes_.push_back(static_cast<char>(byte));
      return;
    }
    flush();
    next_->push(token);
  }
  void finish() override {
    flush();
    next_->finish();
  }
  void settle() override {
    if (is_valid_utf8(bytes_)) flush();
    next_->settle();
  }

 private:
  void flush() {
    if (bytes_.empty()) return;
    if (is_valid_utf8(bytes_)) {
      next_->push(bytes_);
    } else {
      for (std::size_t i = 0; i < bytes_.size(); ++i) next_->push("\xEF\xBF\xBD");
    }
    bytes_.clear();
  }
  std::string bytes_;
};

class ByteRun final : public DecodeStep {
 public:
  void push(std::string_view token) override {
    const int byte = byte_of(token);
    if (byte < 0) {
      flush();
      next_->push(token);
      return;
    }
    bytes_.push_back(static_cast<char>(byte));
    while (!bytes_.empty()) {
      if (is_valid_utf8(bytes_)) {
        next_->push(bytes_);
        bytes_.clear();
      } else if (may_become_character()) {
        break;
      } else {
        next_->push(kReplacement);
        bytes_.erase(0, 1);
      }
    }
  }
  void finish() override {
    flush();
    next_->finish();
  }
  void settle() override { next_->settle(); }

 private:
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

  bool may_become_character() const {
    if (static_cast<unsigned char>(bytes_[0]) < 0xC2 || static_cast<unsigned char>(bytes_[0]) > 0xF4)
      return false;
    if (bytes_.size() >= utf8_length(bytes_[0])) return false;
    return std::all_of(bytes_.begin() + 1, bytes_.end(), is_utf8_continuation);
  }
  void flush() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) next_->push(kReplacement);
    bytes_.clear();
  }
  std::string bytes_;  // the beginning of one character
};

class LeadingSpace final : public DecodeStep {
 public:
  LeadingSpace(const std::string& space, bool all) : space_(space), all_(all) {}
  void push(std::string_view token) override {
    if (active_ && token.starts_with(space_)) {
      token.remove_prefix(space_.size());
      active_ = all_;
    }
    if (!token.empty()) active_ = false;
    next_->push(token);
  }
  void finish() override { next_->finish(); }
  void settle() override { next_->settle(); }

 private:
  const std::string& space_;
  bool all_, active_ = true;
};

class LeadingSpaceMaker final : public DecodeStepMaker {
 public:
  LeadingSpaceMaker(std::string space, bool all) : space_(std::move(space)), all_(all) {}
  std::unique_ptr<DecodeStep> make(DecodePosition position, bool) const override {
    return position.at_start ? std::make_unique<LeadingSpace>(space_, all_) : nullptr;
  }

 private:
  std::string space_;
  bool all_;
};

class Fuse final : public DecodeStep {
 public:
  void push(std::string_view token) override { next_->push(token); }
  void finish() override { next_->finish(); }
  void settle() override { next_->settle(); }
};

// Strip on one token in chunks: takes up to `start` leading characters off, and holds up to `stop`
// trailing ones back until it is clear that something follows.
class StripChunks final : public DecodeStep {
 public:
  StripChunks(const std::string& content, std::size_t start, std::size_t stop)
      : content_(content), start_(start), stop_(stop) {}
  void push(std::string_view chunk) override {
    while (start_ > 0 && !chunk.empty()) {
      if (!chunk.starts_with(content_)) {
        start_ = 0;
        break;
      }
      chunk.remove_prefix(content_.size());
      --start_;
    }
    if (chunk.empty()) return;
    if (stop_ == 0) {
      next_->push(chunk);
      return;
    }
    held_ += chunk;
    std::size_t keep = held_.size();
    for (std::size_t i = 0; i < stop_ && std::string_view(held_).substr(0, keep).ends_with(content_); ++i)
      keep -= content_.size();
    if (keep > 0) next_->push(std::string_view(held_).substr(0, keep));
    held_.erase(0, keep);
  }
  void finish() override {
    held_.clear();
    next_->finish();
  }
  void settle() override { next_->settle(); }

 private:
  const std::string& content_;
  std::size_t start_, stop_;
  std::string held_;  // only copies of content_
};

class StripMaker final : public DecodeStepMaker {
 public:
  StripMaker(std::string content, std::size_t start, std::size_t stop)
      : content_(std::move(content)),
        start_(start),
        stop_(stop),
        whole_([this](std::string_view token, std::size_t) { return strip(token); }) {}
  std::unique_ptr<DecodeStep> make(DecodePosition position, bool fused) const override {
    if (!fused) return std::make_unique<PerToken>(whole_, position);
    return std::make_unique<StripChunks>(content_, position.at_start ? start_ : 0, stop_);
  }

 private:
  std::string strip(std::string_view token) const {
    for (std::size_t i = 0; i < start_ && token.starts_with(content_); ++i)
      token.remove_prefix(content_.size());
    for (std::size_t i = 0; i < stop_ && token.ends_with(content_); ++i) token.remove_suffix(content_.size());
    return std::string(token);
  }
  std::string content_;
  std::size_t start_, stop_;
  TokenFunction whole_;
};

// Replacing a string in one token that comes in chunks: holds back what may be the pattern's beginning.
class ReplaceChunks final : public DecodeStep {
 public:
  ReplaceChunks(const std::string& pattern, const std::string& content)
      : pattern_(pattern), content_(content) {}
  void push(std::string_view chunk) override {
    held_ += chunk;
    std::size_t at = 0;
    std::string out;
    for (std::size_t found = held_.find(pattern_); found != std::string::npos;
         found = held_.find(pattern_, at)) {
      out.append(held_, at, found - at);
      out += content_;
      at = found + pattern_.size();
    }
    std::size_t keep = std::min(pattern_.size() - 1, held_.size() - at);
    while (keep > 0 &&
           !std::string_view(pattern_).starts_with(std::string_view(held_).substr(held_.size() - keep)))
      --keep;
    out.append(held_, at, held_.size() - keep - at);
    held_.erase(0, held_.size() - keep);
    if (!out.empty()) next_->push(out);
  }
  void finish() override {
    if (!held_.empty()) next_->push(held_);
    held_.clear();
    next_->finish();
  }
  void settle() override { next_->settle(); }

 private:
  const std::string &pattern_, &content_;
  std::string held_;
};

class ReplaceStringMaker final : public DecodeStepMaker {
 public:
  ReplaceStringMaker(std::string pattern, std::string content)
      : pattern_(std::move(pattern)),
        content_(std::move(content)),
        whole_(
            [this](std::string_view token, std::size_t) { return replace_all(token, pattern_, content_); }) {}
  std::unique_ptr<DecodeStep> make(DecodePosition position, bool fused) const override {
    if (!fused || pattern_.empty()) return std::make_unique<PerToken>(whole_, position);
    return std::make_unique<ReplaceChunks>(pattern_, content_);
  }

 private:
  std::string pattern_, content_;
  TokenFunction whole_;
};

// The last token's end-of-word suffix becomes nothing, that of the others a space.
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
  void settle() override {  // what remains of the prompt is its last word's space, or nothing
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

class DecodeStream::Last final : public DecodeStep {
 public:
  void push(std::string_view token) override { repair_.push(token, *out); }
  void finish() override { repair_.finish(*out); }
  std::string* out = nullptr;

 private:
  Utf8LossyStream repair_;  // tokens of a GGUF file need not be UTF-8
};

DecodeStream::DecodeStream(const Decoder& decoder, DecodePosition position)
    : last_(std::make_unique<Last>()) {
  bool fused = false;
  for (const DecodeStepMakerPtr& maker : decoder.steps()) {
    steps_.push_back(maker->make(position, fused));
    fused |= maker->fuses();
  }
  for (std::size_t i = 0; i + 1 < steps_.size(); ++i) steps_[i]->set_next(steps_[i + 1].get());
  if (!steps_.empty()) steps_.back()->set_next(last_.get());
}
DecodeStream::~DecodeStream() = default;

void DecodeStream::push(std::string_view token, std::string& out) {
  last_->out = &out;
  (steps_.empty() ? static_cast<DecodeStep*>(last_.get()) : steps_[0].get())->push(token);
}
void DecodeStream::finish(std::string& out) {
  last_->out = &out;
  (steps_.empty() ? static_cast<DecodeStep*>(last_.get()) : steps_[0].get())->finish();
}
void DecodeStream::settle(std::string& out) {
  last_->out = &out;
  (steps_.empty() ? static_cast<DecodeStep*>(last_.get()) : steps_[0].get())->settle();
}

Decoder::Decoder() { steps_.push_back(make_join_decoder(" ")); }
Decoder::Decoder(std::vector<DecodeStepMakerPtr> steps) : steps_(std::move(steps)) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

DecodeStepMakerPtr make_byte_level_decoder() { return std::make_unique<SimpleMaker<ByteLevel, true>>(); }
DecodeStepMakerPtr make_byte_fallback_decoder() {
  return std::make_unique<SimpleMaker<ByteFallback, false>>();
}
DecodeStepMakerPtr make_byte_run_decoder() { return std::make_unique<SimpleMaker<ByteRun, false>>(); }

DecodeStepMakerPtr make_leading_space_decoder(std::string space, bool all) {
  return std::make_unique<LeadingSpaceMaker>(std::move(space), all);
}
DecodeStepMakerPtr make_fuse_decoder() { return std::make_unique<SimpleMaker<Fuse, true>>(); }
DecodeStepMakerPtr make_strip_decoder(std::string content, std::size_t start, std::size_t stop) {
  return std::make_unique<StripMaker>(std::move(content), start, stop);
}
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
  // std::function copies what it holds; a Regex only moves.
  auto shared = std::make_shared<const Regex>(std::move(pattern));
  return per_token([shared, content = std::move(content)](std::string_view token, std::size_t) {
    std::string out;
    shared->for_each_part(token, [&](std::size_t begin, std::size_t end, bool is_match) {
      out += is_match ? std::string_view(content) : token.substr(begin, end - begin);
    });
    return out;
  });
}
DecodeStepMakerPtr make_replace_string_decoder(std::string pattern, std::string content) {
  return std::make_unique<ReplaceStringMaker>(std::move(pattern), std::move(content));
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
