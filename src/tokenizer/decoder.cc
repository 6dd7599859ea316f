#include "tokenizer/decoder.h"

#include "base/utf8.h"
#include "tokenizer/decode_steps.h"

namespace pagoda {

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

}  // namespace pagoda
