#pragma once
// Decoder: token strings -> text, as a stream. Each step is a small state machine that takes tokens one at a
// time and passes on what is certain, so that decoding at once and piece by piece use the same code.
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
  virtual void finish() = 0;  // end of the tokens: passes on text held back
  // The text so far was the prompt: passes on text that would be certain if it ended here, except the
  // beginning of a character that may still be completed.
  virtual void settle() {}
  void set_next(DecodeStep* next) { next_ = next; }

 protected:
  DecodeStep* next_ = nullptr;
};

struct DecodePosition {
  bool at_start = true;  // true at the start of the text; in mid-text nothing is stripped or omitted
};

// A Decoder's description of one step: creates its state machine.
class DecodeStepMaker {
 public:
  virtual ~DecodeStepMaker() = default;
  // `fused`: all tokens arrive as chunks of a single token. Returns null if the step then has no effect.
  virtual std::unique_ptr<DecodeStep> make(DecodePosition position, bool fused) const = 0;
  virtual bool fuses() const { return false; }  // true if the step passes on a single token, in chunks
};
using DecodeStepMakerPtr = std::unique_ptr<DecodeStepMaker>;

class Decoder;

class DecodeStream {
 public:
  DecodeStream(const Decoder& decoder, DecodePosition position);
  ~DecodeStream();
  DecodeStream(const DecodeStream&) = delete;  // the steps hold pointers to each other
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
  Decoder();  // joins tokens with spaces, as a tokenizer.json without a decoder does
  explicit Decoder(std::vector<DecodeStepMakerPtr> steps);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;
  const std::vector<DecodeStepMakerPtr>& steps() const { return steps_; }

 private:
  std::vector<DecodeStepMakerPtr> steps_;
};

}  // namespace pagoda
