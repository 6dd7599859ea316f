// A mixture of experts beside a dense feed-forward (Gemma 4 26B-A4B): each reads the layer's x through its
// own norm, and its result passes through another norm before it is added.
#include <algorithm>

#include "base/check.h"
#include "kernels/elementwise.h"
#include "kernels/rows.h"
#include "models/decoder/layer_part.h"

namespace pagoda {
namespace {

class MixtureBesideDense final : public FeedForward {
 public:
  MixtureBesideDense(const MixtureBesideDenseConfig& config, const LayerPlace& place)
      : hidden_(place.hidden_size),
        eps_(place.norm.eps),
        dense_(make_part(config.dense, place)),
        mixture_(make_part(config.mixture, place)) {
    WeightLoader& loader = place.loader;
    const WeightNames& names = loader.names();
    const auto norm = [&](const std::string& name) {
      return loader.place(loader.norm_vector(place.prefix + name, hidden_, place.norm));
    };
    mixture_norm_ = norm(names.mixture_norm);
    mixture_branch_norm_ = norm(names.mixture_branch_norm);
    dense_branch_norm_ = norm(names.dense_branch_norm);
  }

  std::int64_t inner_width() const override {
    return 3 * padded(hidden_) + std::max(padded(dense_->inner_width()), padded(mixture_->inner_width()));
  }
  Products input_products() override {
    Products products = dense_->input_products();
    for (PackedLinear* each : dense_->output_products()) products.push_back(each);
    return products;
  }
  Products output_products() override {
    Products products = mixture_->input_products();
    for (PackedLinear* each : mixture_->output_products()) products.push_back(each);
    return products;
  }

  Status forward(const Workspace& workspace, const LinearInput& input, std::int64_t count, bool accumulate,
                 const Buffer& y) override {
    CHECK(input.op == LinearInput::Op::rms_norm);
    const std::int64_t size = workspace.chunk_rows * padded(hidden_);
    const RowShape shape = {count, hidden_};
    const auto part_of_room = [&](std::int64_t index) {
      return workspace.inner.at(0, index * size).with_stride(hidden_);
    };
    const Buffer given = part_of_room(0), dense = part_of_room(1), mixture = part_of_room(2);
    Workspace own = workspace;
    own.inner = workspace.inner.at(0, 3 * size);
    LinearInput to_mixture = input;
    to_mixture.weight = mixture_norm_.data();
    const auto half = [&](FeedForward& part, const LinearInput& reads, const PlacedVector& norm,
                          const Buffer& out) -> Status {
      PAGODA_RETURN_IF_ERROR(part.forward(own, reads, count, false, given));
      rms_norm(*workspace.context, given, count, hidden_, norm.data(), eps_, out);
      return ok_status();
    };
    PAGODA_RETURN_IF_ERROR(half(*dense_, input, dense_branch_norm_, dense));
    PAGODA_RETURN_IF_ERROR(half(*mixture_, to_mixture, mixture_branch_norm_, mixture));
    if (!accumulate) zero_rows(*workspace.context, shape, y);
    add_sum(*workspace.context, shape, dense, mixture, y);
    return ok_status();
  }

 private:
  std::int64_t hidden_;
  float eps_;
  std::unique_ptr<FeedForward> dense_, mixture_;
  PlacedVector mixture_norm_, mixture_branch_norm_, dense_branch_norm_;
};

}  // namespace

std::unique_ptr<FeedForward> make_part(const MixtureBesideDenseConfig& config, const LayerPlace& place) {
  return std::make_unique<MixtureBesideDense>(config, place);
}

}  // namespace pagoda
