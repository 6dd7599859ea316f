#pragma once
// Decoder: token strings -> text, as a stream. Each step is a small machine that takes tokens one at a time
// and passes on what is certain, so that decoding all at once and piece by piece is the same code.
//
//     tokens -> ByteFallback -> Fuse -> Strip -> UTF-8 repair -> text
//
// Source of the definitions: Hugging Face `tokenizers`, decoders/.
// Threads: a Decoder is immutable, any thread; a DecodeStream belongs to one.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace pagoda {

class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual void push(std::string_view token) = 0;
  virtual void finish() = 0;  // no more tokens: passes on what is held
  // The text so far was a prompt: passes on what would be certain if it ended here (and is no beginning of
  // a character that may still be completed).
  virtual void settle() {}
  void set_next(DecodeStep* next) { next_ = next; }

 protected:
  DecodeStep* next_ = nullptr;
};

struct DecodePosition {
  bool at_start = true;  // true at the start of the text; in mid-text nothing is stripped or left out
};

// A Decoder's description of one step: makes its running machine.
class DecodeStepMaker {
 public:
  virtual ~DecodeStepMaker() = default;
  // `fused`: all tokens arrive as chunks of a single one. Returns null where the step then does nothing.
  virtual std::unique_ptr<DecodeStep> make(DecodePosition position, bool fused) const = 0;
  virtual bool fuses() const { return false; }  // passes on one single token, in chunks
};
using DecodeStepMakerPtr = std::unique_ptr<DecodeStepMaker>;

class Decoder;

class DecodeStream {
 public:
  DecodeStream(const Decoder& decoder, DecodePosition position);
  ~DecodeStream();
  DecodeStream(const DecodeStream&) = delete;  // the steps point at each other
  DecodeStream& operator=(const DecodeStream&) = delete;

  void push(std::string_view token, std::string& out);
  void finish(std::string& out);
  void settle(std::string& out);

 private:
  class Last;
  std::vector<std::unique_ptr<DecodeStep>> steps_;
  std::unique_ptr<Last> last_;
};

class Decoder {
 public:
  Decoder();  // joins tokens with a space: what a tokenizer.json without a decoder does
  explicit Decoder(std::vector<DecodeStepMakerPtr> steps);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;
  const std::vector<DecodeStepMakerPtr>& steps() const { return steps_; }

 private:
  std::vector<DecodeStepMakerPtr> steps_;
};

}  // namespace pagoda
