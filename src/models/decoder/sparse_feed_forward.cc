// SparseFeedForward: a gated feed-forward in which each row keeps only features whose gate exceeds a cutoff,
// a number of standard deviations above the mean of the row's gates; the excess is the gate (Gemma 3n):
// down(f(max(0, g - cutoff)) * up). With several ranks, gates are gathered so that all ranks use the same
// cutoff. Source: transformers' modeling_gemma3n (arXiv 2411.07501 describes only the residual beside it).
#include <array>

#include "kernels/rows.h"
#include "models/decoder/layer_part.h"

namespace pagoda {
namespace {

class SparseFeedForward final : public FeedForward {
 public:
  SparseFeedForward(const SparseFeedForwardConfig& config, const LayerPlace& place)
      : deviations_(config.deviations),
        features_(config.intermediate_size),
        own_(place.shard.inner.own),
        columns_(place.shard.inner.ranks) {
    for (const Range& part : columns_) {
      if (part.end() <= own_.first) ++own_part_;
      widths_.push_back(part.count);
    }
    WeightLoader& loader = place.loader;
    const WeightNames& names = loader.names();
    const bool joined = gate_is_in_up({names.gate, names.up, names.down, ""}, features_, place);
    const auto load = [&](const std::string& name, std::int64_t first) {
      Matrices rows;
      loader.add(rows, place.prefix + name, joined ? 2 * features_ : features_, place.hidden_size,
                 std::array{Range{first + own_.first, own_.count}});
      return loader.pack(std::move(rows), place.prefix + name, LinearForm::stacked, RowsAdapt::yes);
    };
    gate_ = load(joined ? names.up : names.gate, 0);
    up_ = load(names.up, joined ? features_ : 0);
    out_ = loader.last_linear(place.prefix + names.down, place.hidden_size, features_, own_, place.shard);
  }

  std::int64_t inner_width() const override { return padded(features_) + own_.count; }
  Products input_products() override { return {&gate_, &up_}; }
  Products output_products() override { return {&out_}; }

  Status forward(const Workspace& workspace, const LinearInput& input, std::int64_t count, bool accumulate,
                 const Buffer& y) override {
    const KernelContext& context = *workspace.context;
    const Buffer gates = workspace.inner.with_stride(own_.count);  // by rank: [count, its features]
    const Buffer up = workspace.inner.at(0, workspace.chunk_rows * padded(features_)).with_stride(own_.count);
    linear(context, gate_, input, count, workspace.inner.at(0, count * own_.first).with_stride(own_.count));
    linear(context, up_, input, count, up);
    if (workspace.ranks->split()) {
      sizes_.clear();
      for (const Range& part : columns_) sizes_.push_back(static_cast<std::size_t>(count * part.count));
      PAGODA_RETURN_IF_ERROR(workspace.ranks->gather(sizes_, gates));
    }
    sparse_gate(context, {.deviations = deviations_, .widths = widths_, .own = own_part_}, count, gates, up);
    return workspace.ranks->last_product(context, out_, columns_, up, input.adapters, count, accumulate, y);
  }

 private:
  double deviations_;
  std::int64_t features_;
  Range own_;                         // features of this rank
  std::vector<Range> columns_;        // by rank
  std::vector<std::int64_t> widths_;  // by rank
  std::size_t own_part_ = 0;
  std::vector<std::size_t> sizes_;
  PackedLinear gate_, up_, out_;
};

}  // namespace

std::unique_ptr<FeedForward> make_part(const SparseFeedForwardConfig& config, const LayerPlace& place) {
  return std::make_unique<SparseFeedForward>(config, place);
}

}  // namespace pagoda
