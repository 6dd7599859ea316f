// Halves of layers that are not there (Nemotron-H).
#include "models/layer_part.h"

namespace pagoda {
namespace {

class NoMixer final : public Mixer {
 public:
  std::int64_t entered_width() const override { return 0; }
  std::int64_t mixed_width() const override { return 0; }
  Products entering() override { return {}; }
  Products leaving() override { return {}; }
  void enter(const Workspace&, const DecoderBatch&, Rows, const LinearInput&) override {}
  void mix(const Workspace&, const DecoderBatch&) override {}
  Status leave(const Workspace&, Rows, const Buffer&) override { return ok_status(); }
};

class NoFeedForward final : public FeedForward {
 public:
  std::int64_t inner_width() const override { return 0; }
  Products entering() override { return {}; }
  Products leaving() override { return {}; }
  Status forward(const Workspace&, const LinearInput&, std::int64_t, const Buffer&) override {
    return ok_status();
  }
};

}  // namespace

std::unique_ptr<Mixer> make_part(const NoMixerConfig&, const LayerPlace&, const DecoderConfig&,
                                 WeightLoader&) {
  return std::make_unique<NoMixer>();
}

std::unique_ptr<FeedForward> make_part(const NoFeedForwardConfig&, const LayerPlace&, const DecoderConfig&,
                                       WeightLoader&) {
  return std::make_unique<NoFeedForward>();
}

}  // namespace pagoda
