// Linear attention: one product gives the queries, keys and values of each token, which a short convolution
// mixes with those of the last few, and a gate; another, in float32 whatever the weights, how much of the
// state is kept and how much the token weighs. Every head's matrix goes through the tokens in order
// (kernels/linear_attention.h); what it says of a token is gated, normed, and multiplied. Kept of a sequence:
// the last inputs of the convolution, and the matrices. The delta rule and Mamba-2 differ in the order of the
// product's rows, in what they make of the second one, and in their norm. Source: arXiv 2412.06464; arXiv
// 2405.21060; transformers' modeling_qwen3_next.
#include "kernels/linear_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/causal_conv.h"
#include "kernels/elementwise.h"
#include "kernels/rows.h"
#include "models/layer_part.h"

namespace pagoda {
namespace {

constexpr float kUnitEps = 1e-6f;  // eps of the length of queries and keys; no file says it

class LinearAttention final : public Mixer {
 public:
  LinearAttention(const LinearAttentionConfig& config, const LayerPlace& place);

  // Rows of the first product, then of all rows the result of the second: a weight and a decay of each
  // head.
  std::int64_t projected_width() const override { return row_width() + 2 * config_.num_heads; }
  std::int64_t mixed_width() const override { return config_.value_width(); }
  Products input_products() override { return {&in_, &gates_}; }
  Products output_products() override { return {&out_}; }
  void project_in(const Workspace& workspace, const DecoderBatch& batch, Rows rows,
                  const LinearInput& input) override;
  void mix(const Workspace& workspace, const DecoderBatch& batch) override;
  Status project_out(const Workspace& workspace, Rows rows, bool accumulate, const Buffer& y) override {
    const Buffer mixed = workspace.mixed.with_stride(mixed_width()).at(rows.first);
    return workspace.ranks->last_product(*workspace.context, out_, {}, mixed,
                                         workspace.adapters_from(rows.first), rows.count, accumulate, y);
  }

 private:
  // [token, weights | decays], or of Mamba-2 all weights, then all decays: these follow from those.
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
  void load_delta_net(const LayerPlace& place);
  void load_mamba2(const LayerPlace& place);

  LinearAttentionConfig config_;
  std::int32_t layer_;
  float norm_eps_;
  PackedLinear in_, gates_, out_;         // in: [what is convolved | gate]; gates: [weights | decays]
  PlacedVector taps_, conv_bias_;         // [tap, channel]; bias: or empty
  PlacedVector rate_, step_bias_, skip_;  // by head; skip: of Mamba-2
  PlacedVector norm_;                     // a delta net's, for each head; empty: none
};

LinearAttention::LinearAttention(const LinearAttentionConfig& config, const LayerPlace& place)
    : config_(config), layer_(place.index), norm_eps_(place.norm.eps) {
  WeightLoader& loader = place.loader;
  const LinearAttentionNames& names = loader.names().linear_attention;
  const std::string conv = place.prefix + loader.names().conv;
  WeightReader& reader = loader.reader();
  if (config.delta_rule)
    load_delta_net(place);
  else
    load_mamba2(place);
  out_ = loader.linear(place.prefix + names.out, place.hidden_size, config.value_width(), config.out_factor,
                       RowsAdapt::yes);
  taps_ = loader.place(reader.channel_taps(conv, config.num_channels(), config.num_taps));
  conv_bias_ = loader.place(reader.optional_vector(conv + ".bias", config.num_channels()));
  std::vector<float> rates = reader.values(place.prefix + names.rate, config.num_heads);
  if (names.rate_is_log)
    for (float& rate : rates) rate = -std::exp(rate);
  rate_ = loader.place(std::move(rates));
  step_bias_ = loader.place(reader.values(place.prefix + names.step_bias, config.num_heads));
  if (config.delta_rule || config.norm_groups > 0)
    norm_ = loader.place(reader.values(place.prefix + names.norm + ".weight",
                                       config.delta_rule ? config.value_size : config.value_width()));
}

void LinearAttention::load_delta_net(const LayerPlace& place) {
  WeightLoader& loader = place.loader;
  const LinearAttentionNames& names = loader.names().linear_attention;
  const std::int64_t hidden = place.hidden_size, heads = config_.num_heads, keys = config_.num_key_heads;
  Matrices in, gates;
  const auto add = [&](Matrices& to, const std::string& name, std::int64_t rows) {
    loader.add(to, place.prefix + name, rows, hidden, std::array{Range{0, rows}});
  };
  // Adds the part of each key head's rows that begins after `before` of them.
  const auto add_parts = [&](Matrices& to, const std::string& name, std::int64_t before, std::int64_t count,
                             std::int64_t all) {
    std::vector<Range> ranges;
    for (std::int64_t head = 0; head < keys; ++head) ranges.push_back({head * all + before, count});
    loader.add(to, place.prefix + name, keys * all, hidden, ranges);
  };
  const auto has = [&](const std::string& name) {
    return !name.empty() && loader.reader().has(place.prefix + name + ".weight");
  };
  if (has(names.by_key_head)) {
    const std::int64_t key = config_.key_size, value = heads / keys * config_.value_size;
    const std::int64_t all = 2 * key + 2 * value;
    add_parts(in, names.by_key_head, 0, key, all);
    add_parts(in, names.by_key_head, key, key, all);
    add_parts(in, names.by_key_head, 2 * key, value, all);
    add_parts(in, names.by_key_head, 2 * key + value, value, all);
  } else {
    add(in, names.qkv, config_.num_channels());
    add(in, names.gate, config_.value_width());
  }
  if (has(names.gates_by_key_head)) {
    add_parts(gates, names.gates_by_key_head, 0, heads / keys, 2 * heads / keys);
    add_parts(gates, names.gates_by_key_head, heads / keys, heads / keys, 2 * heads / keys);
  } else {
    add(gates, names.weight, heads);
    add(gates, names.decay, heads);
  }
  in_ = loader.pack(std::move(in), place.prefix + (has(names.by_key_head) ? names.by_key_head : names.qkv),
                    LinearForm::stacked, RowsAdapt::yes);
  gates_ = loader.pack_exact(std::move(gates), place.prefix + names.decay, RowsAdapt::yes);
}

// One matrix: [gate | value | B | C | step].
void LinearAttention::load_mamba2(const LayerPlace& place) {
  WeightLoader& loader = place.loader;
  const LinearAttentionNames& names = loader.names().linear_attention;
  const std::int64_t width = config_.value_width(), keys = config_.key_width(), heads = config_.num_heads;
  const std::int64_t sizes[] = {width, width, keys, keys, heads};
  const std::string name = place.prefix + names.in;
  std::int64_t all = 0, first[5];
  for (int i = 0; i < 5; ++i) first[i] = std::exchange(all, all + sizes[i]);
  Matrices in, gates;
  const auto add = [&](Matrices& to, int part) {
    loader.add(to, name, all, place.hidden_size, std::array{Range{first[part], sizes[part]}},
               config_.in_factors[static_cast<std::size_t>(part)], config_.input_factor);
  };
  for (const int part : {1, 2, 3, 0}) add(in, part);
  add(gates, 4);
  in_ = loader.pack(std::move(in), name, LinearForm::stacked, RowsAdapt::yes);
  gates_ = loader.pack_exact(std::move(gates), name, RowsAdapt::yes);
  skip_ = loader.place(loader.reader().values(place.prefix + names.skip, heads));
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
  // The convolution's input: [query | key | value], for Mamba-2 [value | key | query].
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
  const std::int32_t groups = delta ? config_.num_heads : std::max(config_.norm_groups, 1);
  const GatedNorm norm = {.num_groups = groups,
                          .group_size = config_.value_width() / groups,
                          .weight = norm_.data(),
                          .own_weights = !delta,
                          .gate_first = !delta && config_.gate_first,
                          .eps = norm_eps_};
  gated_rms_norm(context, norm, rows, mixed, row.at(0, config_.num_channels()));
}

}  // namespace

std::unique_ptr<Mixer> make_part(const LinearAttentionConfig& config, const LayerPlace& place) {
  return std::make_unique<LinearAttention>(config, place);
}

}  // namespace pagoda
