// Decode steps that pass a single token in chunks through without delay: they hold back only what may still
// change.
#include <algorithm>

#include "tokenizer/decode_per_token.h"
#include "tokenizer/decode_steps.h"

namespace pagoda {
namespace {

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

class FuseMaker final : public DecodeStepMaker {
 public:
  std::unique_ptr<DecodeStep> make(DecodePosition, bool) const override { return std::make_unique<Fuse>(); }
  bool fuses() const override { return true; }
};

// Strip on one token in chunks: removes up to `start` leading characters, and holds up to `stop` trailing
// ones back until it is clear that more text follows.
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

// Replaces a string in one token that arrives in chunks: holds back a possible beginning of the pattern.
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
}  // namespace

DecodeStepMakerPtr make_leading_space_decoder(std::string space, bool all) {
  return std::make_unique<LeadingSpaceMaker>(std::move(space), all);
}
DecodeStepMakerPtr make_fuse_decoder() { return std::make_unique<FuseMaker>(); }
DecodeStepMakerPtr make_strip_decoder(std::string content, std::size_t start, std::size_t stop) {
  return std::make_unique<StripMaker>(std::move(content), start, stop);
}
DecodeStepMakerPtr make_replace_string_decoder(std::string pattern, std::string content) {
  return std::make_unique<ReplaceStringMaker>(std::move(pattern), std::move(content));
}

}  // namespace pagoda
