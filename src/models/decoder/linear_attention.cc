// Linear attention: one product gives each token's queries, keys and values, which a short convolution mixes
// with those of the last few tokens, and a gate. Another product, always in float32, gives the state's decay
// and the token's weight. Each head's matrix passes through the tokens in order (kernels/linear_attention.h);
// its result is gated, normed and multiplied. Kept per sequence: the last inputs of the convolution, and the
// matrices. The delta rule and Mamba-2 differ in the order of the product's rows, in the use of the second
// product, and in their norm. Source: arXiv 2412.06464; arXiv 2405.21060; transformers' modeling_qwen3_next.
#include "kernels/linear_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/causal_conv.h"
#include "kernels/elementwise.h"
#include "kernels/rows.h"
#include "models/decoder/layer_part.h"

namespace pagoda {
namespace {

constexpr float kUnitEps = 1e-6f;  // epsilon of query and key lengths; no file specifies it

class LinearAttention final : public Mixer {
 public:
  LinearAttention(const LinearAttentionConfig& config, const LayerPlace& place);

  // Rows of the first product, followed by the second product's results for all rows: a weight and a decay
  // per head.
  std::int64_t projected_width() const override { return row_width() + 2 * config_.num_heads; }
  std::int64_t mixed_width() const override { return config_.value_width(); }
  std::int64_t whole_width() const override { return norm_spans_ranks_ ? whole_.value_width() : 0; }
  Products input_products() override { return {&in_, &gates_}; }
  Products output_products() override { return {&out_}; }
  void project_in(const Workspace& workspace, const DecoderBatch& batch, Rows rows,
                  const LinearInput& input) override;
  void mix(const Workspace& workspace, const DecoderBatch& batch) override;
  Status project_out(const Workspace& workspace, Rows rows, bool accumulate, const Buffer& y) override {
    const Buffer mixed = workspace.mixed.with_stride(mixed_width()).at(rows.first);
    return workspace.ranks->last_product(*workspace.context, out_, columns_, mixed,
                                         workspace.adapters_from(rows.first), rows.count, accumulate, y);
  }

 private:
  // [token, weights | decays]; for Mamba-2 all weights, then all decays, which are computed from the weights.
  struct Gates {
    Buffer weight, decay;
  };
  Gates gates_of(const Workspace& workspace, const DecoderBatch& batch) const {
    const std::int64_t tokens = std::ssize(batch.token_ids), heads = config_.num_heads;
    const Buffer all = workspace.projected.at(0, tokens * row_width());
    if (config_.delta_rule) return {all.with_stride(2 * heads), all.with_stride(2 * heads).at(0, heads)};
    return {all.with_stride(heads), all.with_stride(heads).at(tokens)};
  }
  Buffer projected(const Workspace& workspace) const { return workspace.projected.with_stride(row_width()); }
  std::int64_t row_width() const { return config_.num_channels() + config_.value_width(); }
  static Range features(Range heads, std::int64_t size) { return {heads.first * size, heads.count * size}; }
  static Range behind(std::int64_t begin, Range range) { return {begin + range.first, range.count}; }
  std::vector<Range> key_features() const { return features_of(shard_.keys, whole_.key_size); }
  std::vector<float> own_heads(const std::vector<float>& all) const {
    return columns_of(all, whole_.num_heads, std::array{shard_.own});
  }
  void load_delta_net(const LayerPlace& place);
  void load_mamba2(const LayerPlace& place);
  std::vector<Range> own_channels() const;
  void normalize(const Workspace& workspace, std::int64_t rows);

  LinearAttentionConfig whole_, config_;  // the whole layer's, and this rank's part
  StateShard shard_;
  std::vector<Range> columns_;  // columns of the output matrix, by rank
  bool norm_spans_ranks_ = false;
  std::int32_t layer_;
  float norm_eps_;
  PackedLinear in_, gates_, out_;         // in: [convolved inputs | gate]; gates: [weights | decays]
  PlacedVector taps_, conv_bias_;         // [tap, channel]; conv_bias_ may be empty
  PlacedVector rate_, step_bias_, skip_;  // by head; skip: only Mamba-2
  PlacedVector norm_;                     // a delta net's, per head; may be empty
};

LinearAttention::LinearAttention(const LinearAttentionConfig& config, const LayerPlace& place)
    : whole_(config),
      config_(part_of(config, place.shard.states)),
      shard_(place.shard.states),
      columns_(features_of(place.shard.states.ranks, config.value_size)),
      layer_(place.index),
      norm_eps_(place.norm.eps) {
  WeightLoader& loader = place.loader;
  const LinearAttentionNames& names = loader.names().linear_attention;
  const std::string conv = place.prefix + loader.names().conv;
  WeightReader& reader = loader.reader();
  if (config.delta_rule)
    load_delta_net(place);
  else
    load_mamba2(place);
  const Range values = features(shard_.own, config.value_size);
  out_ = loader.last_linear(place.prefix + names.out, place.hidden_size, config.value_width(), values,
                            place.shard, config.out_factor);
  const std::int64_t channels = config.num_channels();
  taps_ = loader.place(
      columns_of(reader.channel_taps(conv, channels, config.num_taps), channels, own_channels()));
  conv_bias_ =
      loader.place(columns_of(reader.optional_vector(conv + ".bias", channels), channels, own_channels()));
  std::vector<float> rates = own_heads(reader.values(place.prefix + names.rate, config.num_heads));
  if (names.rate_is_log)
    for (float& rate : rates) rate = -std::exp(rate);
  rate_ = loader.place(std::move(rates));
  step_bias_ = loader.place(own_heads(reader.values(place.prefix + names.step_bias, config.num_heads)));
  if (config.delta_rule) {
    norm_ = loader.place(reader.values(place.prefix + names.norm + ".weight", config.value_size));
  } else if (config.norm_groups > 0) {
    std::vector<float> weights = reader.values(place.prefix + names.norm + ".weight", config.value_width());
    norm_spans_ranks_ = values.count % (config.value_width() / config.norm_groups) != 0;
    norm_ = loader.place(norm_spans_ranks_ ? std::move(weights)
                                           : columns_of(weights, config.value_width(), std::array{values}));
  }
}

// Channels of the convolution: [query | key | value]; for Mamba-2 [value | key | query].
std::vector<Range> LinearAttention::own_channels() const {
  const std::int64_t keys = whole_.key_width(), values = whole_.value_width();
  std::vector<Range> channels;
  const auto add_values = [&](std::int64_t begin) {
    channels.push_back(behind(begin, features(shard_.own, whole_.value_size)));
  };
  if (!whole_.delta_rule) add_values(0);
  const std::int64_t first = whole_.delta_rule ? 0 : values;
  for (const std::int64_t begin : {first, first + keys})
    for (const Range& range : key_features()) channels.push_back(behind(begin, range));
  if (whole_.delta_rule) add_values(2 * keys);
  return channels;
}

void LinearAttention::load_delta_net(const LayerPlace& place) {
  WeightLoader& loader = place.loader;
  const LinearAttentionNames& names = loader.names().linear_attention;
  const std::int64_t hidden = place.hidden_size, heads = whole_.num_heads, keys = whole_.num_key_heads;
  const std::int64_t group = heads / keys;
  Matrices in, gates;
  // Adds `count` of the `all` rows of each key head, after the first `before`.
  const auto add_keys = [&](Matrices& to, const std::string& name, std::int64_t before, std::int64_t count,
                            std::int64_t all) {
    std::vector<Range> ranges;
    for (const Range& own : shard_.keys)
      for (std::int64_t head = own.first; head < own.end(); ++head)
        ranges.push_back({head * all + before, count});
    loader.add(to, place.prefix + name, keys * all, hidden, ranges);
  };
  // The same for value heads, which follow their key head's first `before` rows, `count` rows each.
  const auto add_heads = [&](Matrices& to, const std::string& name, std::int64_t before, std::int64_t count,
                             std::int64_t all) {
    std::vector<Range> ranges;
    for (std::int64_t head = shard_.own.first; head < shard_.own.end(); ++head)
      ranges.push_back({head / group * all + before + head % group * count, count});
    loader.add(to, place.prefix + name, keys * all, hidden, ranges);
  };
  const auto has = [&](const std::string& name) {
    return !name.empty() && loader.reader().has(place.prefix + name + ".weight");
  };
  if (has(names.by_key_head)) {
    const std::int64_t key = whole_.key_size, size = whole_.value_size, value = group * size;
    const std::int64_t all = 2 * key + 2 * value;
    add_keys(in, names.by_key_head, 0, key, all);
    add_keys(in, names.by_key_head, key, key, all);
    add_heads(in, names.by_key_head, 2 * key, size, all);
    add_heads(in, names.by_key_head, 2 * key + value, size, all);
  } else {
    loader.add(in, place.prefix + names.qkv, whole_.num_channels(), hidden, own_channels());
    loader.add(in, place.prefix + names.gate, whole_.value_width(), hidden,
               std::array{features(shard_.own, whole_.value_size)});
  }
  if (has(names.gates_by_key_head)) {
    add_heads(gates, names.gates_by_key_head, 0, 1, 2 * group);
    add_heads(gates, names.gates_by_key_head, group, 1, 2 * group);
  } else {
    for (const std::string& name : {names.weight, names.decay})
      loader.add(gates, place.prefix + name, heads, hidden, std::array{shard_.own});
  }
  in_ = loader.pack(std::move(in), place.prefix + (has(names.by_key_head) ? names.by_key_head : names.qkv),
                    LinearForm::stacked, RowsAdapt::yes);
  gates_ = loader.pack_exact(std::move(gates), place.prefix + names.decay, RowsAdapt::yes);
}

// Loads one matrix: [gate | value | B | C | step].
void LinearAttention::load_mamba2(const LayerPlace& place) {
  WeightLoader& loader = place.loader;
  const LinearAttentionNames& names = loader.names().linear_attention;
  const std::int64_t width = whole_.value_width(), keys = whole_.key_width(), heads = whole_.num_heads;
  const std::int64_t sizes[] = {width, width, keys, keys, heads};
  const std::vector value = {features(shard_.own, whole_.value_size)};
  const std::vector<Range> key = key_features();
  const std::vector<Range> own[] = {value, value, key, key, {shard_.own}};
  const std::string name = place.prefix + names.in;
  std::int64_t all = 0, first[5];
  for (int i = 0; i < 5; ++i) first[i] = std::exchange(all, all + sizes[i]);
  Matrices in, gates;
  const auto add = [&](Matrices& to, int part) {
    std::vector<Range> ranges;
    for (const Range& range : own[part]) ranges.push_back(behind(first[part], range));
    loader.add(to, name, all, place.hidden_size, ranges, whole_.in_factors[static_cast<std::size_t>(part)],
               whole_.input_factor);
  };
  for (const int part : {1, 2, 3, 0}) add(in, part);
  add(gates, 4);
  in_ = loader.pack(std::move(in), name, LinearForm::stacked, RowsAdapt::yes);
  gates_ = loader.pack_exact(std::move(gates), name, RowsAdapt::yes);
  skip_ = loader.place(own_heads(loader.reader().values(place.prefix + names.skip, heads)));
}

void LinearAttention::project_in(const Workspace& workspace, const DecoderBatch& batch, Rows rows,
                                 const LinearInput& input) {
  const Gates gates = gates_of(workspace, batch);
  linear(*workspace.context, in_, input, rows.count, projected(workspace).at(rows.first));
  linear(*workspace.context, gates_, input, rows.count, gates.weight.at(rows.first));
  recurrent_gates(*workspace.context,
                  {.delta_rule = config_.delta_rule,
                   .num_heads = config_.num_heads,
                   .rate = rate_.data(),
                   .bias = step_bias_.data(),
                   .least_step = config_.least_step,
                   .most_step = config_.most_step},
                  rows.count, gates.weight.at(rows.first), gates.decay.at(rows.first));
}

void LinearAttention::mix(const Workspace& workspace, const DecoderBatch& batch) {
  const KernelContext& context = *workspace.context;
  const std::int64_t rows = std::ssize(batch.token_ids);
  const std::int64_t key_width = config_.key_width(), value_width = config_.value_width();
  const Buffer row = projected(workspace), mixed = workspace.mixed.with_stride(value_width);
  const bool delta = config_.delta_rule;
  const LayerStates& states = batch.states_of(layer_);
  causal_conv(context, {.num_channels = config_.num_channels(),
                        .num_taps = config_.num_taps,
                        .weight = taps_.data(),
                        .bias = conv_bias_.data(),
                        .silu = true,
                        .input = row,
                        .gate = {},
                        .output_gate = {},
                        .output = row,
                        .states = states});
  // The convolution's input: [query | key | value]; for Mamba-2 [value | key | query].
  const Buffer query = row.at(0, delta ? 0 : value_width + key_width);
  const Buffer key = row.at(0, delta ? key_width : value_width);
  const Buffer value = row.at(0, delta ? 2 * key_width : 0);
  if (delta) {
    const float scale = 1 / std::sqrt(static_cast<float>(config_.key_size));
    heads_to_unit(context, query, rows, config_.num_key_heads, config_.key_size, kUnitEps, scale);
    heads_to_unit(context, key, rows, config_.num_key_heads, config_.key_size, kUnitEps, 1);
  }
  const Gates gates = gates_of(workspace, batch);
  linear_attention(context, {.num_heads = config_.num_heads,
                             .num_key_heads = config_.num_key_heads,
                             .tiled_heads = config_.tiled_heads,
                             .key_size = config_.key_size,
                             .value_size = config_.value_size,
                             .delta_rule = delta,
                             .query = query,
                             .key = key,
                             .value = value,
                             .decay = gates.decay,
                             .weight = gates.weight,
                             .skip = skip_.data(),
                             .output = mixed,
                             .states = states,
                             .piece = 1});
  normalize(workspace, rows);
}

void LinearAttention::normalize(const Workspace& workspace, std::int64_t rows) {
  const KernelContext& context = *workspace.context;
  const bool delta = config_.delta_rule;
  const Buffer mixed = workspace.mixed.with_stride(config_.value_width());
  const Buffer gate = projected(workspace).at(0, config_.num_channels());
  const std::int32_t size = delta                    ? config_.value_size
                            : whole_.norm_groups > 0 ? whole_.value_width() / whole_.norm_groups
                                                     : config_.value_width();
  GatedNorm norm = {.num_groups = config_.value_width() / size,
                    .group_size = size,
                    .weight = norm_.data(),
                    .own_weights = !delta,
                    .gate_first = !delta && config_.gate_first,
                    .eps = norm_eps_};
  if (!norm_spans_ranks_) return gated_rms_norm(context, norm, rows, mixed, gate);
  norm.num_groups = whole_.norm_groups;
  const Chunks chunks = {rows, workspace.chunk_rows};
  for (std::int64_t i = 0; i < chunks.count(); ++i) {
    const auto [first, count] = chunks[i];
    const Buffer all = workspace.ranks->whole_rows(context, columns_, mixed.at(first), count);
    const Buffer gates = workspace.ranks->whole_rows(context, columns_, gate.at(first), count, true);
    gated_rms_norm(context, norm, count, all, gates);
    workspace.ranks->keep_own(context, features(shard_.own, config_.value_size), all, count, mixed.at(first));
  }
}

}  // namespace

std::unique_ptr<Mixer> make_part(const LinearAttentionConfig& config, const LayerPlace& place) {
  return std::make_unique<LinearAttention>(config, place);
}

}  // namespace pagoda
