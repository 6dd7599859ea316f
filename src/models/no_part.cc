// Halves of layers that are not there (Nemotron-H).
#include "kernels/rows.h"
#include "models/layer_part.h"

namespace pagoda {
namespace {

// y = (accumulate: y +) 0
Status add_nothing(const Workspace& room, std::int64_t count, bool accumulate, const Buffer& y) {
  if (!accumulate) zero_rows(*room.context, {count, y.stride}, y);
  return ok_status();
}

class NoMixer final : public Mixer {
 public:
  std::int64_t entered_width() const override { return 0; }
  std::int64_t mixed_width() const override { return 0; }
  Products entering() override { return {}; }
  Products leaving() override { return {}; }
  void enter(const Workspace&, const DecoderBatch&, Rows, const LinearInput&) override {}
  void mix(const Workspace&, const DecoderBatch&) override {}
  Status leave(const Workspace& room, Rows rows, bool accumulate, const Buffer& y) override {
    return add_nothing(room, rows.count, accumulate, y);
  }
};

class NoFeedForward final : public FeedForward {
 public:
  std::int64_t inner_width() const override { return 0; }
  Products entering() override { return {}; }
  Products leaving() override { return {}; }
  Status forward(const Workspace& room, const LinearInput&, std::int64_t count, bool accumulate,
                 const Buffer& y) override {
    return add_nothing(room, count, accumulate, y);
  }
};

}  // namespace

std::unique_ptr<Mixer> make_part(const NoMixerConfig&, const LayerPlace&) {
  return std::make_unique<NoMixer>();
}

std::unique_ptr<FeedForward> make_part(const NoFeedForwardConfig&, const LayerPlace&) {
  return std::make_unique<NoFeedForward>();
}

}  // namespace pagoda
