// DenseFeedForward: two matrices with an activation between them. The first matrix may have two halves, gate
// and up: down(f(gate x) * (up x)) (arXiv 2002.05202). The activation may have parameters learned per layer
// (xIELU, arXiv 2411.13010):
//   x > 0:  p x^2 + beta x            p = softplus(alpha_p)
//   else:   n (e^min(x, eps) - 1 - x) + beta x,   n = beta + softplus(alpha_n)
#include <array>
#include <optional>

#include "base/strings.h"
#include "kernels/activation.h"
#include "kernels/elementwise.h"
#include "kernels/rows.h"
#include "models/decoder/layer_part.h"

namespace pagoda {
namespace {

// Reads the first matrix: gate above up, or only up, for these features.
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

XieluCurve read_curve(const XieluConfig& config, const LayerPlace& place) {
  const std::string& name = place.loader.names().curve;
  const auto number = [&](const char* part, float written) {
    if (name.empty()) return written;
    const std::vector<float> one = place.loader.reader().vector(place.prefix + name + part, 1);
    return one.empty() ? written : one.front();
  };
  const float beta = number(".beta", config.beta);
  return {.beta = beta,
          .eps = number(".eps", config.eps),
          .positive = softplus(number(".alpha_p", config.alpha_p)),
          .negative = beta + softplus(number(".alpha_n", config.alpha_n))};
}

class DenseFeedForward final : public FeedForward {
 public:
  // `curve` replaces the activation.
  DenseFeedForward(const DenseFeedForwardConfig& config, const DenseNames& names, const FeatureShard& shard,
                   const LayerPlace& place, const std::optional<XieluCurve>& curve = std::nullopt)
      : activation_(config.activation),
        curve_(curve),
        own_(shard.own),
        width_(shard.own.count),
        columns_(shard.ranks),
        norm_eps_(place.norm.eps) {
    if (config.inner_norm)
      norm_ = place.loader.place(place.loader.norm_vector(place.prefix + place.loader.names().mlp_inner_norm,
                                                          config.intermediate_size, place.norm));
    in_ = place.loader.pack(read_first(config, names, shard.own, place),
                            place.prefix + (names.gate_up.empty() ? names.up : names.gate_up),
                            config.gated ? LinearForm::gated : LinearForm::stacked, RowsAdapt::yes);
    out_ = place.loader.last_linear(place.prefix + names.down, place.hidden_size, config.intermediate_size,
                                    shard.own, place.shard, config.down_factor);
  }

  std::int64_t inner_width() const override { return width_; }
  std::int64_t whole_width() const override { return norm_.empty() ? 0 : columns_.back().end(); }
  Products input_products() override { return {&in_}; }
  Products output_products() override { return {&out_}; }

  Status forward(const Workspace& workspace, const LinearInput& input, std::int64_t count, bool accumulate,
                 const Buffer& y) override {
    const Buffer inner = workspace.inner.with_stride(width_);
    if (!workspace.ranks->split() && norm_.empty() && !curve_) {
      linear_pair(*workspace.context, in_, activation_, out_, input, count, inner, y, accumulate);
      return ok_status();
    }
    linear(*workspace.context, in_, input, count, inner,
           {.activation = curve_ ? std::nullopt : std::optional(activation_)});
    if (curve_) xielu(*workspace.context, {count, width_}, *curve_, inner);
    if (!norm_.empty()) {
      const Buffer all = workspace.ranks->whole_rows(*workspace.context, columns_, inner, count);
      rms_norm(*workspace.context, all, count, columns_.back().end(), norm_.data(), norm_eps_, all);
      workspace.ranks->keep_own(*workspace.context, own_, all, count, inner);
    }
    return workspace.ranks->last_product(*workspace.context, out_, columns_, inner, input.adapters, count,
                                         accumulate, y);
  }

 private:
  Activation activation_;
  std::optional<XieluCurve> curve_;
  Range own_;                   // this rank's features between the matrices
  std::int64_t width_;          // their number
  std::vector<Range> columns_;  // columns of the second matrix, by rank
  float norm_eps_;
  PlacedVector norm_;  // between the matrices; may be empty
  PackedLinear in_;    // gate and up, or only up
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
  DenseNames own = {names.gate, names.up, names.down, names.fused_gate_up};
  const DenseNames& other = names.other_dense;
  if (!other.down.empty() && place.loader.reader().has(place.prefix + other.down + ".weight")) own = other;
  return make_dense(config, own, place.shard.inner, place);
}

std::unique_ptr<FeedForward> make_part(const XieluConfig& config, const LayerPlace& place) {
  const WeightNames& names = place.loader.names();
  const DenseFeedForwardConfig dense = {.intermediate_size = config.intermediate_size, .gated = false};
  return std::make_unique<DenseFeedForward>(dense, DenseNames{"", names.up, names.down, ""},
                                            place.shard.inner, place, read_curve(config, place));
}

}  // namespace pagoda
