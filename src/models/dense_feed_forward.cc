// DenseFeedForward: two matrices with a function between them, of which the first may have two halves, gate
// and up: down(f(gate x) * (up x)) (arXiv 2002.05202).
#include <array>

#include "kernels/elementwise.h"
#include "models/layer_part.h"

namespace pagoda {
namespace {

// Its first matrix: gate above up, or up alone, of these features.
Matrices read_first(const DenseFeedForwardConfig& config, const DenseNames& names, Range own,
                    const LayerPlace& place) {
  WeightLoader& loader = place.loader;
  const std::array own_rows = {own};
  const std::int64_t inner = config.intermediate_size;
  Matrices in;
  if (!names.gate_up.empty()) {  // gate above up
    const std::array up_rows = {Range{inner + own.first, own.count}};
    for (const auto& rows : {own_rows, up_rows})
      loader.add(in, place.prefix + names.gate_up, 2 * inner, place.hidden_size, rows);
  } else if (config.gated && gate_is_in_up(names, inner, place)) {
    return read_first(config, {"", "", names.down, names.up}, own, place);
  } else {
    if (config.gated)
      loader.add(in, place.prefix + names.gate, inner, place.hidden_size, own_rows, config.gate_factor);
    loader.add(in, place.prefix + names.up, inner, place.hidden_size, own_rows);
  }
  return in;
}

class DenseFeedForward final : public FeedForward {
 public:
  DenseFeedForward(const DenseFeedForwardConfig& config, const DenseNames& names, const FeatureShard& shard,
                   const LayerPlace& place)
      : activation_(config.activation),
        width_(shard.own.count),
        columns_(shard.ranks),
        norm_eps_(place.norm.eps) {
    if (config.inner_norm)
      norm_ = place.loader.place(place.loader.norm_vector(place.prefix + place.loader.names().mlp_inner_norm,
                                                          config.intermediate_size, place.norm));
    in_ = place.loader.pack(read_first(config, names, shard.own, place),
                            place.prefix + (names.gate_up.empty() ? names.up : names.gate_up),
                            config.gated ? LinearForm::gated : LinearForm::stacked);
    out_ = place.loader.last_linear(place.prefix + names.down, place.hidden_size, config.intermediate_size,
                                    shard.own, place.shard, config.down_factor);
  }

  std::int64_t inner_width() const override { return width_; }
  Products entering() override { return {&in_}; }
  Products leaving() override { return {&out_}; }

  Status forward(const Workspace& room, const LinearInput& input, std::int64_t count, bool accumulate,
                 const Buffer& y) override {
    const Buffer inner = room.inner.with_stride(width_);
    if (!room.ranks->split() && norm_.empty()) {
      linear_pair(*room.context, in_, activation_, out_, input, count, inner, y, accumulate);
      return ok_status();
    }
    linear(*room.context, in_, input, count, inner, {.activation = activation_});
    if (!norm_.empty()) rms_norm(*room.context, inner, count, width_, norm_.data(), norm_eps_, inner);
    return room.ranks->last_product(*room.context, out_, columns_, inner, count, accumulate, y);
  }

 private:
  Activation activation_;
  std::int64_t width_;          // this rank's features between the matrices
  std::vector<Range> columns_;  // columns of the second matrix, by rank
  float norm_eps_;
  PlacedVector norm_;  // between the matrices; or empty
  PackedLinear in_;    // gate and up, or up alone
  PackedLinear out_;
};

}  // namespace

bool gate_is_in_up(const DenseNames& names, std::int64_t inner, const LayerPlace& place) {
  const WeightReader& reader = place.loader.reader();
  return !reader.has(place.prefix + names.gate + ".weight") &&
         reader.has_tensor(place.prefix + names.up + ".weight", {2 * inner, place.hidden_size});
}

std::unique_ptr<FeedForward> make_dense(const DenseFeedForwardConfig& config, const DenseNames& names,
                                        const FeatureShard& shard, const LayerPlace& place) {
  return std::make_unique<DenseFeedForward>(config, names, shard, place);
}

std::unique_ptr<FeedForward> make_part(const DenseFeedForwardConfig& config, const LayerPlace& place) {
  const WeightNames& names = place.loader.names();
  return make_dense(config, {names.gate, names.up, names.down, names.fused_gate_up}, place.shard.inner,
                    place);
}

}  // namespace pagoda
