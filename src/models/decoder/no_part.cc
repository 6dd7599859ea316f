// Absent sublayers (Nemotron-H).
#include "kernels/rows.h"
#include "models/decoder/layer_part.h"

namespace pagoda {
namespace {

// y = (accumulate: y +) 0
Status add_nothing(const Workspace& workspace, std::int64_t count, bool accumulate, const Buffer& y) {
  if (!accumulate) zero_rows(*workspace.context, {count, y.stride}, y);
  return ok_status();
}

class NoMixer final : public Mixer {
 public:
  std::int64_t projected_width() const override { return 0; }
  std::int64_t mixed_width() const override { return 0; }
  Products input_products() override { return {}; }
  Products output_products() override { return {}; }
  void project_in(const Workspace&, const DecoderBatch&, Rows, const LinearInput&) override {}
  void mix(const Workspace&, const DecoderBatch&) override {}
  Status project_out(const Workspace& workspace, Rows rows, bool accumulate, const Buffer& y) override {
    return add_nothing(workspace, rows.count, accumulate, y);
  }
};

class NoFeedForward final : public FeedForward {
 public:
  std::int64_t inner_width() const override { return 0; }
  Products input_products() override { return {}; }
  Products output_products() override { return {}; }
  Status forward(const Workspace& workspace, const LinearInput&, std::int64_t count, bool accumulate,
                 const Buffer& y) override {
    return add_nothing(workspace, count, accumulate, y);
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
