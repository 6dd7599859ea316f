// SparseFeedForward: a gated feed-forward of which each row keeps few features: those whose gate is beyond a
// cutoff, so many standard deviations above the mean of the row's gates, and the gate counts from there
// (Gemma 3n): down(f(max(0, g - cutoff)) * up). On several ranks the gates are gathered, so that all cut off
// at the same place. Source: arXiv 2411.07501 is for the residual beside it; transformers' modeling_gemma3n
// for this.
#include <array>
#include <cmath>
#include <numbers>

#include "kernels/tiles.h"
#include "models/layer_part.h"

namespace pagoda {
namespace {

class SparseFeedForward final : public FeedForward {
 public:
  SparseFeedForward(const SparseFeedForwardConfig& config, const LayerPlace& place, WeightLoader& loader)
      : deviations_(config.deviations),
        features_(config.intermediate_size),
        own_(place.shard->inner.own),
        columns_(place.shard->inner.ranks) {
    const WeightNames& names = loader.names();
    const bool joined = gate_is_in_up({names.gate, names.up, names.down, ""}, features_, place, loader);
    const auto load = [&](const std::string& name, std::int64_t first) {
      Matrices rows;
      loader.add(rows, place.prefix + name, joined ? 2 * features_ : features_, place.hidden_size,
                 std::array{Range{first + own_.first, own_.count}});
      return loader.pack(std::move(rows), place.prefix + name);
    };
    gate_ = load(joined ? names.up : names.gate, 0);
    up_ = load(names.up, joined ? features_ : 0);
    out_ = loader.last_linear(place.prefix + names.down, place.hidden_size, features_, own_, *place.shard);
  }

  std::int64_t inner_width() const override { return padded(features_) + own_.count; }
  Products entering() override { return {&gate_, &up_}; }
  Products leaving() override { return {&out_}; }

  Status forward(const Workspace& room, const LinearInput& input, std::int64_t count, float* y) override {
    const KernelContext& context = *room.context;
    float* const gates = room.inner;  // for each rank [count, its features]
    float* const own_gates = gates + count * own_.first;
    float* const up = gates + room.chunk_rows * padded(features_);
    linear(context, gate_, input, count, own_gates);
    linear(context, up_, input, count, up);
    if (room.ranks->split()) {
      sizes_.clear();
      for (const Range& part : columns_) sizes_.push_back(static_cast<std::size_t>(count * part.count));
      PAGODA_RETURN_IF_ERROR(room.ranks->gather(sizes_, gates));
    }
    for_tiles(context, count, [&](std::int64_t row, int) {
      const float cutoff = cutoff_of(gates, row, count);
      const float* const gate = own_gates + row * own_.count;
      float* const out = up + row * own_.count;
      for (std::int64_t i = 0; i < own_.count; ++i)
        out[i] = gate[i] > cutoff ? gelu(gate[i] - cutoff) * out[i] : 0.0f;
    });
    if (room.ranks->split()) return room.ranks->add_product(context, out_, columns_, up, count, y);
    linear(context, out_, LinearInput::rows(up, own_.count), count, y, {.accumulate = true});
    return ok_status();
  }

 private:
  static float gelu(float x) {
    const float inner = std::sqrt(2.0f / std::numbers::pi_v<float>) * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.0f + std::tanh(inner));
  }

  // One row's cutoff: feature by feature in the model's order, however they are spread over the ranks.
  float cutoff_of(const float* gates, std::int64_t row, std::int64_t count) const {
    const auto sum_of = [&](const auto& term) {
      double sum = 0;
      for (const Range& part : columns_) {
        const float* const from = gates + count * part.first + row * part.count;
        for (std::int64_t i = 0; i < part.count; ++i) sum += term(static_cast<double>(from[i]));
      }
      return sum / static_cast<double>(features_);
    };
    const double mean = sum_of([](double g) { return g; });
    const double variance = sum_of([&](double g) { return (g - mean) * (g - mean); });
    return static_cast<float>(mean + deviations_ * std::sqrt(variance));
  }

  double deviations_;
  std::int64_t features_;
  Range own_;                   // this rank's features
  std::vector<Range> columns_;  // by rank
  std::vector<std::size_t> sizes_;
  PackedLinear gate_, up_, out_;
};

}  // namespace

std::unique_ptr<FeedForward> make_part(const SparseFeedForwardConfig& config, const LayerPlace& place,
                                       const DecoderConfig&, WeightLoader& loader) {
  return std::make_unique<SparseFeedForward>(config, place, loader);
}

}  // namespace pagoda
