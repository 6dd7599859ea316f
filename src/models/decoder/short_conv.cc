// A short convolution (LFM2): one product gives each token's [b | c | x]; b * x is convolved over the last
// few tokens, channel by channel, and multiplied by c before the output matrix. Kept per sequence: the last
// inputs of the convolution. Source: LFM2 (Liquid AI, 2025), as in transformers.
#include <array>

#include "kernels/causal_conv.h"
#include "kernels/dequantize.h"
#include "models/decoder/layer_part.h"

namespace pagoda {
namespace {

class ShortConv final : public Mixer {
 public:
  ShortConv(const ShortConvConfig& config, const LayerPlace& place);

  std::int64_t projected_width() const override { return 3 * channels_; }
  std::int64_t mixed_width() const override { return channels_; }
  Products input_products() override { return {&in_}; }
  Products output_products() override { return {&out_}; }

  void project_in(const Workspace& workspace, const DecoderBatch&, Rows rows,
                  const LinearInput& input) override {
    linear(*workspace.context, in_, input, rows.count,
           workspace.projected.with_stride(projected_width()).at(rows.first));
  }
  void mix(const Workspace& workspace, const DecoderBatch& batch) override {
    const Buffer projected = workspace.projected.with_stride(projected_width());
    causal_conv(*workspace.context, {.num_channels = channels_,
                                     .num_taps = num_taps_,
                                     .weight = weight_.data(),
                                     .bias = bias_.data(),
                                     .input = projected.at(0, 2 * channels_),
                                     .gate = projected,
                                     .output_gate = projected.at(0, channels_),
                                     .output = workspace.mixed.with_stride(channels_),
                                     .states = batch.states_of(layer_)});
  }
  Status project_out(const Workspace& workspace, Rows rows, bool accumulate, const Buffer& y) override {
    const Buffer mixed = workspace.mixed.with_stride(channels_).at(rows.first);
    return workspace.ranks->last_product(*workspace.context, out_, columns_, mixed,
                                         workspace.adapters_from(rows.first), rows.count, accumulate, y);
  }

 private:
  std::int32_t layer_;
  std::int64_t channels_;       // this rank's
  std::vector<Range> columns_;  // columns of the output matrix, by rank
  std::int32_t num_taps_;
  PackedLinear in_, out_;
  PlacedVector weight_, bias_;  // [taps, channels]; bias_ may be empty
};

ShortConv::ShortConv(const ShortConvConfig& config, const LayerPlace& place)
    : layer_(place.index),
      channels_(place.shard.states.own.count),
      columns_(place.shard.states.ranks),
      num_taps_(config.num_taps) {
  WeightLoader& loader = place.loader;
  const WeightNames& names = loader.names();
  WeightReader& reader = loader.reader();
  const Range own = place.shard.states.own;
  const std::int64_t all = config.num_channels;
  Matrices in;
  const std::array parts = {own, Range{all + own.first, own.count}, Range{2 * all + own.first, own.count}};
  loader.add(in, place.prefix + names.conv_in, 3 * all, place.hidden_size, parts);
  in_ = loader.pack(std::move(in), place.prefix + names.conv_in, LinearForm::stacked, RowsAdapt::yes);
  out_ = loader.last_linear(place.prefix + names.conv_out, place.hidden_size, all, own, place.shard);
  weight_ = loader.place(
      columns_of(reader.channel_taps(place.prefix + names.conv, all, num_taps_), all, std::array{own}));
  bias_ = loader.place(
      columns_of(reader.optional_vector(place.prefix + names.conv + ".bias", all), all, std::array{own}));
}

}  // namespace

std::unique_ptr<Mixer> make_part(const ShortConvConfig& config, const LayerPlace& place) {
  return std::make_unique<ShortConv>(config, place);
}

}  // namespace pagoda
