// Xielu: two matrices with a curve between them whose shape each layer has learned (arXiv 2411.13010):
//   x > 0:  p x^2 + beta x            p = softplus(alpha_p)
//   else:   n (e^min(x, eps) - 1 - x) + beta x,   n = beta + softplus(alpha_n)
#include "kernels/activation.h"
#include "kernels/rows.h"
#include "models/layer_part.h"

namespace pagoda {
namespace {

class Xielu final : public FeedForward {
 public:
  Xielu(const XieluConfig& config, const LayerPlace& place)
      : width_(place.shard.inner.own.count), columns_(place.shard.inner.ranks) {
    WeightLoader& loader = place.loader;
    const WeightNames& names = loader.names();
    const std::array own_rows = {place.shard.inner.own};
    Matrices in;
    loader.add(in, place.prefix + names.up, config.intermediate_size, place.hidden_size, own_rows);
    in_ = loader.pack(std::move(in), place.prefix + names.up);
    out_ = loader.last_linear(place.prefix + names.down, place.hidden_size, config.intermediate_size,
                              place.shard.inner.own, place.shard);
    const auto number = [&](const char* name, float written) {
      if (names.curve.empty()) return written;
      const std::string whole = place.prefix + names.curve + name;
      const std::vector<float> one = loader.reader().vector(whole, 1);
      return one.empty() ? written : one.front();
    };
    curve_.beta = number(".beta", config.beta);
    curve_.eps = number(".eps", config.eps);
    curve_.positive = softplus(number(".alpha_p", config.alpha_p));
    curve_.negative = curve_.beta + softplus(number(".alpha_n", config.alpha_n));
  }

  std::int64_t inner_width() const override { return width_; }
  Products entering() override { return {&in_}; }
  Products leaving() override { return {&out_}; }

  Status forward(const Workspace& room, const LinearInput& input, std::int64_t count, bool accumulate,
                 const Buffer& y) override {
    const Buffer inner = room.inner.with_stride(width_);
    linear(*room.context, in_, input, count, inner);
    xielu(*room.context, {count, width_}, curve_, inner);
    return room.ranks->last_product(*room.context, out_, columns_, inner, count, accumulate, y);
  }

 private:
  std::int64_t width_;          // this rank's features between the matrices
  std::vector<Range> columns_;  // columns of the second matrix, by rank
  PackedLinear in_, out_;
  XieluCurve curve_;
};

}  // namespace

std::unique_ptr<FeedForward> make_part(const XieluConfig& config, const LayerPlace& place) {
  return std::make_unique<Xielu>(config, place);
}

}  // namespace pagoda
