// Linear attention: one product gives the keys, queries and values of each token, which a short convolution mixes
// with those of the last few, and a gate; another, in float32 whatever the weights, how much of the state is kept
// and how much the token weighs. Every head's matrix goes through the tokens in order (kernels/linear_attention.h);
// what it says of a token is normed head by head, gated, and multiplied. Kept of a sequence: the last inputs of the
// convolution, and the matrices. Source: arXiv 2412.06464; arXiv 2405.21060; transformers' modeling_qwen3_next.
#include "kernels/linear_attention.h"

#include <array>
#include <cmath>

#include "kernels/causal_conv.h"
#include "kernels/elementwise.h"
#include "kernels/tiles.h"
#include "models/layer_part.h"

namespace pagoda {
namespace {

constexpr float kUnitEps = 1e-6f;  // of the length of queries and keys; no file says it

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

class LinearAttention final : public Mixer {
 public:
  LinearAttention(const LinearAttentionConfig& config, const LayerPlace& place, WeightLoader& loader);

  // Rows of the product, and behind all of them rows of weights and decays.
  std::int64_t entered_width() const override { return row_width() + 2 * config_.num_heads; }
  std::int64_t mixed_width() const override { return config_.value_width(); }
  Products entering() override { return {&in_, &gates_}; }
  Products leaving() override {
    Products products;
    for (PackedLinear& piece : out_) products.push_back(&piece);
    return products;
  }
  void enter(const LayerRoom& room, const DecoderBatch& batch, Rows rows, const LinearInput& input) override;
  void mix(const LayerRoom& room, const DecoderBatch& batch) override;
  Status leave(const LayerRoom& room, Rows rows, float* y) override {
    return room.sum->add_product(*room.context, out_, parts_, mixed_rows(room, rows), rows.count, y);
  }

 private:
  std::int64_t row_width() const { return config_.num_channels() + config_.value_width(); }
  float* weights_of(const LayerRoom& room, const DecoderBatch& batch) const {
    return room.entered + static_cast<std::int64_t>(batch.token_ids.size()) * row_width();
  }
  void load_products(const LayerPlace& place, WeightLoader& loader);

  LinearAttentionConfig config_;
  std::int32_t layer_;
  float norm_eps_;
  std::vector<std::int32_t> parts_;
  PackedLinear in_, gates_;  // [query | key | value | gate], [weights | decays]
  RowParallelLinear out_;
  std::vector<float> taps_;              // [tap, channel]
  std::vector<float> rate_, step_bias_;  // by head
  std::vector<float> norm_;
};

LinearAttention::LinearAttention(const LinearAttentionConfig& config, const LayerPlace& place,
                                 WeightLoader& loader)
    : config_(config), layer_(place.index), norm_eps_(place.norm->eps), parts_(place.shard->heads.parts) {
  const LinearAttentionNames& names = loader.names().linear_attention;
  WeightReader& reader = loader.reader();
  load_products(place, loader);
  out_ = loader.row_parallel(place.prefix + names.out, place.hidden_size, config.value_width(),
                             std::array{Range{0, config.value_width()}});
  taps_ = reader.channel_taps(place.prefix + loader.names().conv, config.num_channels(), config.num_taps);
  rate_ = reader.values(place.prefix + names.rate, config.num_heads);
  if (names.rate_is_log)
    for (float& rate : rate_) rate = -std::exp(rate);
  step_bias_ = reader.values(place.prefix + names.step_bias, config.num_heads);
  norm_ = reader.values(place.prefix + names.norm + ".weight", config.value_size);
}

void LinearAttention::load_products(const LayerPlace& place, WeightLoader& loader) {
  const LinearAttentionNames& names = loader.names().linear_attention;
  const std::int64_t hidden = place.hidden_size, heads = config_.num_heads, keys = config_.num_key_heads;
  Matrices in, gates;
  const auto add = [&](Matrices& to, const std::string& name, std::int64_t rows) {
    loader.add(to, place.prefix + name, rows, hidden, std::array{Range{0, rows}});
  };
  // Of each key head the part of its rows that begins behind `before` of them.
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
  in_ = loader.pack(std::move(in), place.prefix + (has(names.by_key_head) ? names.by_key_head : names.qkv));
  gates_ = loader.pack_exact(std::move(gates), place.prefix + names.decay);
}

void LinearAttention::enter(const LayerRoom& room, const DecoderBatch& batch, Rows rows,
                            const LinearInput& input) {
  linear(*room.context, in_, input, rows.count, room.entered + rows.first * row_width());
  const std::int64_t heads = config_.num_heads;
  float* const gates = weights_of(room, batch) + rows.first * 2 * heads;
  linear(*room.context, gates_, input, rows.count, gates);
  for_ranges(*room.context, rows.count, 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      float* const weight = gates + row * 2 * heads;
      float* const decay = weight + heads;
      for (std::int64_t head = 0; head < heads; ++head) {
        const auto at = static_cast<std::size_t>(head);
        weight[head] = 1 / (1 + std::exp(-weight[head]));
        decay[head] = std::exp(rate_[at] * softplus(decay[head] + step_bias_[at]));
      }
    }
  });
}

void LinearAttention::mix(const LayerRoom& room, const DecoderBatch& batch) {
  const auto rows = static_cast<std::int64_t>(batch.token_ids.size());
  const std::int64_t width = row_width(), heads = config_.num_heads, key_width = config_.key_width();
  float* const query = room.entered;
  float* const key = query + key_width;
  const float* const value = key + key_width;
  const float* const weights = weights_of(room, batch);
  const LayerStates& states = batch.states_of(layer_);
  causal_conv(*room.context, {.num_channels = config_.num_channels(),
                              .num_taps = config_.num_taps,
                              .weight = taps_.data(),
                              .silu = true,
                              .input = room.entered,
                              .row_stride = width,
                              .output = room.entered,
                              .output_stride = width,
                              .states = states});
  const float scale = 1 / std::sqrt(static_cast<float>(config_.key_size));
  heads_to_unit(*room.context, query, rows, width, config_.num_key_heads, config_.key_size, kUnitEps, scale);
  heads_to_unit(*room.context, key, rows, width, config_.num_key_heads, config_.key_size, kUnitEps, 1);
  linear_attention(*room.context, {.num_heads = config_.num_heads,
                                   .num_key_heads = config_.num_key_heads,
                                   .tiled_heads = config_.tiled_heads,
                                   .key_size = config_.key_size,
                                   .value_size = config_.value_size,
                                   .delta_rule = true,
                                   .query = query,
                                   .key = key,
                                   .value = value,
                                   .row_stride = width,
                                   .decay = weights + heads,
                                   .weight = weights,
                                   .gate_stride = 2 * heads,
                                   .output = room.mixed,
                                   .output_stride = mixed_width(),
                                   .states = states,
                                   .piece = 1});
  const GatedNorm norm = {.num_groups = config_.num_heads,
                          .group_size = config_.value_size,
                          .weight = norm_.data(),
                          .eps = norm_eps_};
  gated_rms_norm(*room.context, norm, rows, room.mixed, mixed_width(), room.entered + config_.num_channels(),
                 width);
}

}  // namespace

std::unique_ptr<Mixer> make_part(const LinearAttentionConfig& config, const LayerPlace& place,
                                 const DecoderConfig&, WeightLoader& loader) {
  return std::make_unique<LinearAttention>(config, place, loader);
}

}  // namespace pagoda
