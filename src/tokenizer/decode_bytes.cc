// Decode steps that turn bytes into characters.
#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/decode_steps.h"

namespace pagoda {
namespace {

template <class Step, bool kFuses>
class StepMaker final : public DecodeStepMaker {
 public:
  std::unique_ptr<DecodeStep> make(DecodePosition, bool) const override { return std::make_unique<Step>(); }
  bool fuses() const override { return kFuses; }
};

// Bytes of the byte-level alphabet, decoded as a whole: characters may span tokens.
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
  if (token[3] == '+' && low >= 0) return low;  // Rust's number parser accepts a sign
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// A run of <0xNN> tokens is one byte string: text if it is UTF-8 as a whole, otherwise one U+FFFD per byte.
// So nothing of a run is certain until it ends.
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
  std::string bytes_;  // an incomplete character
};
}  // namespace

DecodeStepMakerPtr make_byte_level_decoder() { return std::make_unique<StepMaker<ByteLevel, true>>(); }
DecodeStepMakerPtr make_byte_fallback_decoder() { return std::make_unique<StepMaker<ByteFallback, false>>(); }
DecodeStepMakerPtr make_byte_run_decoder() { return std::make_unique<StepMaker<ByteRun, false>>(); }

}  // namespace pagoda
