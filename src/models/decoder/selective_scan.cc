// Mamba-1: one product gives each token's [x | z]. A short convolution mixes x with that of the last few
// tokens; from the result one product computes [step | B | C], and another one each channel's step. Each
// channel's state passes through the tokens in order (kernels/selective_scan.h), and silu(z) gates the
// result. Kept per sequence: the last inputs of the convolution, and the states. Source: arXiv 2312.00752;
// transformers' modeling_mamba, modeling_falcon_mamba and modeling_jamba.
#include "kernels/selective_scan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/causal_conv.h"
#include "kernels/elementwise.h"
#include "models/decoder/layer_part.h"

namespace pagoda {
namespace {

class SelectiveScan final : public Mixer {
 public:
  SelectiveScan(const SelectiveScanConfig& config, const LayerPlace& place);

  // Rows of the first product, followed by the second product's results for all rows.
  std::int64_t projected_width() const override { return row_width() + scanned_width(); }
  std::int64_t mixed_width() const override { return config_.num_channels; }
  std::int64_t whole_width() const override { return columns_.back().end(); }
  Products input_products() override { return {&in_}; }
  Products output_products() override { return {&scanned_, &step_, &out_}; }
  void project_in(const Workspace& workspace, const DecoderBatch&, Rows rows,
                  const LinearInput& input) override {
    linear(*workspace.context, in_, input, rows.count, projected(workspace).at(rows.first));
  }
  void mix(const Workspace& workspace, const DecoderBatch& batch) override;
  Status project_out(const Workspace& workspace, Rows rows, bool accumulate, const Buffer& y) override {
    const Buffer mixed = workspace.mixed.with_stride(mixed_width()).at(rows.first);
    return workspace.ranks->last_product(*workspace.context, out_, columns_, mixed,
                                         workspace.adapters_from(rows.first), rows.count, accumulate, y);
  }

 private:
  std::int64_t row_width() const { return 2 * std::int64_t{config_.num_channels}; }
  std::int64_t scanned_width() const { return config_.step_rank + 2 * std::int64_t{config_.state_size}; }
  Buffer projected(const Workspace& workspace) const { return workspace.projected.with_stride(row_width()); }
  void load_rates(const LayerPlace& place);
  void load_norms(const LayerPlace& place);
  void project_steps(const Workspace& workspace, Rows rows, const Buffer& x, const Buffer& scanned) const;

  SelectiveScanConfig config_;  // with this rank's channels
  std::vector<Range> columns_;  // each rank's channels
  std::int32_t layer_;
  PackedLinear in_, scanned_, step_, out_;          // in: [x | z]
  PlacedVector taps_, conv_bias_;                   // [tap, channel]; conv_bias_ may be empty
  PlacedVector rate_, skip_;                        // rate: ordered by scan_index()
  PlacedVector step_norm_, key_norm_, query_norm_;  // may be empty
};

SelectiveScan::SelectiveScan(const SelectiveScanConfig& config, const LayerPlace& place)
    : config_(config), columns_(place.shard.states.ranks), layer_(place.index) {
  WeightLoader& loader = place.loader;
  const LinearAttentionNames& names = loader.names().linear_attention;
  const std::string conv = place.prefix + loader.names().conv;
  WeightReader& reader = loader.reader();
  const std::int64_t channels = config.num_channels;
  const Range own = place.shard.states.own;
  const auto of_own = [&](const std::vector<float>& rows) {
    return loader.place(columns_of(rows, channels, std::array{own}));
  };
  config_.num_channels = static_cast<std::int32_t>(own.count);
  Matrices in, step;
  loader.add(in, place.prefix + names.in, 2 * channels, place.hidden_size,
             std::array{own, Range{channels + own.first, own.count}});
  in_ = loader.pack(std::move(in), place.prefix + names.in, LinearForm::stacked, RowsAdapt::yes);
  scanned_ = loader.linear(place.prefix + names.scanned, scanned_width(), channels);
  loader.add(step, place.prefix + names.step, channels, config.step_rank, std::array{own});
  step_ = loader.pack(std::move(step), place.prefix + names.step);
  out_ = loader.last_linear(place.prefix + names.out, place.hidden_size, channels, own, place.shard);
  taps_ = of_own(reader.channel_taps(conv, channels, config.num_taps));
  conv_bias_ = of_own(reader.optional_vector(conv + ".bias", channels));
  skip_ = of_own(reader.values(place.prefix + names.skip, channels));
  load_rates(place);
  if (config.norms != SelectiveScanConfig::Norms::none) load_norms(place);
}

// The file has a row per channel.
void SelectiveScan::load_rates(const LayerPlace& place) {
  const LinearAttentionNames& names = place.loader.names().linear_attention;
  const std::int32_t size = config_.state_size;
  const Range own = place.shard.states.own;
  const std::int64_t channels = columns_.back().end();
  const std::vector<float> stored =
      columns_of(place.loader.reader().values(place.prefix + names.rate, channels * size), channels * size,
                 std::array{Range{own.first * size, own.count * size}});
  std::vector<float> rates(stored.size());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto channel = static_cast<std::int64_t>(i) / size;
    const auto element = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % size);
    rates[static_cast<std::size_t>(scan_index(config_.num_channels, size, element, channel))] =
        names.rate_is_log ? -std::exp(stored[i]) : stored[i];
  }
  rate_ = place.loader.place(std::move(rates));
}

void SelectiveScan::load_norms(const LayerPlace& place) {
  WeightLoader& loader = place.loader;
  const LinearAttentionNames& names = loader.names().linear_attention;
  const NormConfig norm = {.eps = config_.norm_eps,
                           .weighted = config_.norms == SelectiveScanConfig::Norms::weighted};
  const auto load = [&](const std::string& name, std::int32_t size) {
    return loader.place(norm.weighted ? loader.norm_vector(place.prefix + name, size, norm)
                                      : std::vector<float>(static_cast<std::size_t>(size), 1.0f));
  };
  step_norm_ = load(names.step_norm, config_.step_rank);
  key_norm_ = load(names.key_norm, config_.state_size);
  query_norm_ = load(names.query_norm, config_.state_size);
}

// Computes [step | B | C] of these rows, normed, and writes the channels' steps into `mixed`.
void SelectiveScan::project_steps(const Workspace& workspace, Rows rows, const Buffer& x,
                                  const Buffer& scanned) const {
  const KernelContext& context = *workspace.context;
  const Buffer own = scanned.at(rows.first);
  const Buffer all = workspace.ranks->whole_rows(context, columns_, x.at(rows.first), rows.count);
  linear(context, scanned_, LinearInput::rows(all), rows.count, own);
  if (config_.norms != SelectiveScanConfig::Norms::none) {
    const auto normalize = [&](const Buffer& of, std::int32_t size, const PlacedVector& weight) {
      rms_norm(context, of, rows.count, size, weight.data(), config_.norm_eps, of);
    };
    normalize(own, config_.step_rank, step_norm_);
    normalize(own.at(0, config_.step_rank), config_.state_size, key_norm_);
    normalize(own.at(0, config_.step_rank + config_.state_size), config_.state_size, query_norm_);
  }
  linear(context, step_, LinearInput::rows(own), rows.count,
         workspace.mixed.with_stride(mixed_width()).at(rows.first));
}

void SelectiveScan::mix(const Workspace& workspace, const DecoderBatch& batch) {
  const KernelContext& context = *workspace.context;
  const std::int64_t rows = std::ssize(batch.token_ids);
  const Buffer x = projected(workspace), mixed = workspace.mixed.with_stride(mixed_width());
  const Buffer scanned = workspace.projected.at(0, rows * row_width()).with_stride(scanned_width());
  const LayerStates& states = batch.states_of(layer_);
  causal_conv(context, {.num_channels = config_.num_channels,
                        .num_taps = config_.num_taps,
                        .weight = taps_.data(),
                        .bias = conv_bias_.data(),
                        .silu = true,
                        .input = x,
                        .gate = {},
                        .output_gate = {},
                        .output = x,
                        .states = states});
  const Chunks chunks = {rows, workspace.chunk_rows};
  for (std::int64_t chunk = 0; chunk < chunks.count(); ++chunk)
    project_steps(workspace, chunks[chunk], x, scanned);
  selective_scan(context, {.num_channels = config_.num_channels,
                           .state_size = config_.state_size,
                           .rate = rate_.data(),
                           .skip = skip_.data(),
                           .step = mixed,
                           .value = x,
                           .key = scanned.at(0, config_.step_rank),
                           .query = scanned.at(0, config_.step_rank + config_.state_size),
                           .output = mixed,
                           .states = states,
                           .piece = 1});
  gated_rms_norm(context, {.num_groups = 1, .group_size = config_.num_channels}, rows, mixed,
                 x.at(0, config_.num_channels));
}

}  // namespace

std::unique_ptr<Mixer> make_part(const SelectiveScanConfig& config, const LayerPlace& place) {
  return std::make_unique<SelectiveScan>(config, place);
}

}  // namespace pagoda
