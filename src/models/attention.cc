// Attention: query, key and value of each token in one product, rotated; attention over the paged cache; the
// output matrix. Several query heads may share a key-value head (arXiv 2305.13245).
#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/tiles.h"
#include "models/attention_weights.h"
#include "models/layer_part.h"

namespace pagoda {
namespace {

class Attention final : public Mixer {
 public:
  Attention(const AttentionConfig& config, const LayerPlace& place, const DecoderConfig& decoder,
            WeightLoader& loader);

  std::int64_t entered_width() const override { return own_.qkv_size() + own_.gate_size(); }
  std::int64_t mixed_width() const override { return own_.query_size(); }
  Products entering() override { return {&qkv_}; }
  Products leaving() override { return {&output_}; }
  void enter(const Workspace& room, const DecoderBatch& batch, Rows rows, const LinearInput& input) override;
  void mix(const Workspace& room, const DecoderBatch& batch) override {
    paged_attention(*room.context, arguments(room, batch));
    const auto num_rows = static_cast<std::int64_t>(batch.token_ids.size());
    const float* const gates = room.entered + own_.qkv_size();
    if (own_.output_gate == OutputGate::sigmoid)
      times_sigmoid(*room.context, num_rows, mixed_width(), room.mixed, mixed_width(), gates,
                    entered_width());
    else if (own_.output_gate != OutputGate::none)
      times_gates(*room.context, num_rows, gates, room.mixed);
  }
  void list_ahead(const Workspace& room, const DecoderBatch& batch, ReadAhead& out) const override {
    list_context(*room.context, arguments(room, batch), out);
  }
  Status leave(const Workspace& room, Rows rows, float* y) override {
    return room.ranks->add_product(*room.context, output_, columns_, room.mixed + rows.first * mixed_width(),
                                   rows.count, y);
  }

 private:
  PagedAttentionArgs arguments(const Workspace& room, const DecoderBatch& batch) const;
  void normalize_heads(const KernelContext& context, float* qkv, std::int64_t count) const;
  void normalize_each(float* heads) const;
  void times_gates(const KernelContext& context, std::int64_t num_rows, const float* gates,
                   float* mixed) const;
  void clip_qkv(float* qkv, std::int64_t count) const;
  void scale_queries(std::span<const std::int32_t> positions, float* qkv) const;

  AttentionConfig own_;  // with this rank's numbers of heads
  std::int32_t layer_;
  std::int32_t rotary_size_ = 0;
  float norm_eps_;
  std::vector<Range> columns_;  // columns of the output matrix, by rank
  PackedLinear qkv_, output_;
  std::vector<float> query_norm_, key_norm_;
  std::vector<float> sinks_;  // for this rank's query heads, as own_.slopes
};

Attention::Attention(const AttentionConfig& config, const LayerPlace& place, const DecoderConfig& decoder,
                     WeightLoader& loader)
    : own_(config), layer_(place.index), norm_eps_(place.norm->eps) {
  const HeadShard& shard = place.shard->heads;
  own_.num_heads = static_cast<std::int32_t>(shard.query.count);
  own_.num_kv_heads = static_cast<std::int32_t>(shard.kv.count);
  if (config.rope != kNoRope) rotary_size_ = decoder.ropes[static_cast<std::size_t>(config.rope)].rotary_size;
  AttentionWeights weights = read_attention(config, shard, place, decoder, loader);
  query_norm_ = std::move(weights.query_norm);
  key_norm_ = std::move(weights.key_norm);
  sinks_ = std::move(weights.sinks);
  if (!config.slopes.empty())
    own_.slopes.assign(config.slopes.begin() + shard.query.first, config.slopes.begin() + shard.query.end());
  qkv_ = loader.pack(std::move(weights.query_key_value), weights.name);
  const auto features = [&](Range heads) {
    return Range{heads.first * config.head_size, heads.count * config.head_size};
  };
  for (const Range& heads : shard.ranks) columns_.push_back(features(heads));
  output_ =
      loader.last_linear(place.prefix + loader.names().attention_output, place.hidden_size,
                         config.query_size(), features(shard.query), *place.shard, config.output_factor);
}

// RMS norm of each query and key head in the fused rows, or of all query and of all key heads, in place; and
// of each value head where it has one.
void Attention::normalize_heads(const KernelContext& context, float* qkv, std::int64_t count) const {
  const bool whole = own_.query_key_norm == QueryKeyNorm::whole;
  const auto normalize = [&](float* values, std::int32_t size, const std::vector<float>& weight) {
    double sum = 0;
    for (std::int32_t i = 0; i < size; ++i) sum += static_cast<double>(values[i]) * values[i];
    const auto scale = static_cast<float>(1.0 / std::sqrt(sum / size + norm_eps_));
    for (std::int32_t i = 0; i < size; ++i)
      values[i] = values[i] * scale * (weight.empty() ? 1.0f : weight[static_cast<std::size_t>(i)]);
  };
  const bool own_weights = own_.query_key_norm == QueryKeyNorm::each_head;
  const auto body = [&](std::int64_t row, int) {
    float* heads = qkv + row * entered_width();
    if (whole) {
      normalize(heads, own_.query_size(), query_norm_);
      return normalize(heads + own_.query_size(), own_.kv_size(), key_norm_);
    }
    if (own_weights) return normalize_each(heads);
    const auto each = [&](std::int32_t count, const std::vector<float>& weight) {
      for (std::int32_t head = 0; head < count; ++head, heads += own_.head_size)
        normalize(heads, own_.head_size, weight);
    };
    each(own_.num_heads, query_norm_);
    if (!own_.has_own_kv()) return;
    each(own_.num_kv_heads, key_norm_);
    if (own_.value_norm) each(own_.num_kv_heads, {});
  };
  for_tiles(context, count, body);
}

// Layer norms of one row's heads.
void Attention::normalize_each(float* heads) const {
  for (std::int32_t head = 0; head < own_.num_heads + own_.num_kv_heads; ++head, heads += own_.head_size) {
    const bool query = head < own_.num_heads;
    const float* const weight = query ? query_norm_.data() + head * own_.head_size
                                      : key_norm_.data() + (head - own_.num_heads) * own_.head_size;
    double sum = 0, squares = 0;
    for (std::int32_t i = 0; i < own_.head_size; ++i) sum += heads[i];
    const double mean = sum / own_.head_size;
    for (std::int32_t i = 0; i < own_.head_size; ++i) squares += (heads[i] - mean) * (heads[i] - mean);
    const double scale = 1.0 / std::sqrt(squares / own_.head_size + norm_eps_);
    for (std::int32_t i = 0; i < own_.head_size; ++i)
      heads[i] = static_cast<float>((heads[i] - mean) * scale) * weight[i];
  }
}

// Multiplies the attended values by a gate for each element or one for each head.
void Attention::times_gates(const KernelContext& context, std::int64_t num_rows, const float* gates,
                            float* mixed) const {
  const std::int64_t width = mixed_width(), each = width / own_.gate_size();
  const bool sigmoid = own_.output_gate == OutputGate::sigmoid_of_head;
  for_tiles(context, num_rows, [&](std::int64_t row, int) {
    const float* const gate = gates + row * entered_width();
    float* const y = mixed + row * width;
    for (std::int64_t i = 0; i < width; ++i) {
      const float x = gate[i / each];
      const float softplus = x > 20 ? x : std::log1p(std::exp(x));
      y[i] *= sigmoid ? 1 / (1 + std::exp(-x)) : softplus;
    }
  });
}

void Attention::enter(const Workspace& room, const DecoderBatch& batch, Rows rows, const LinearInput& input) {
  const std::int64_t width = entered_width();
  float* const qkv = room.entered + rows.first * width;
  linear(*room.context, qkv_, input, rows.count, qkv);
  const bool norms = own_.query_key_norm != QueryKeyNorm::none;
  if (norms && !own_.norm_after_rope) normalize_heads(*room.context, qkv, rows.count);
  if (own_.clip > 0) clip_qkv(qkv, rows.count);
  const auto positions =
      batch.positions.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
  if (rotary_size_ > 0) {
    RopeTable& table = room.ropes[static_cast<std::size_t>(own_.rope)];
    const RopeRows turns = table.of_rows(*room.context, positions, rows.first);
    const std::int32_t heads = own_.num_heads + (own_.has_own_kv() ? own_.num_kv_heads : 0);
    rope(*room.context, qkv, rows.count, width, heads, own_.head_size, rotary_size_, turns.index,
         turns.table);
  }
  if (norms && own_.norm_after_rope) normalize_heads(*room.context, qkv, rows.count);
  if (own_.temperature_beta != 0) scale_queries(positions, qkv);
}

void Attention::clip_qkv(float* qkv, std::int64_t count) const {
  for (std::int64_t row = 0; row < count; ++row, qkv += entered_width())
    for (std::int32_t i = 0; i < own_.qkv_size(); ++i) qkv[i] = std::clamp(qkv[i], -own_.clip, own_.clip);
}

void Attention::scale_queries(std::span<const std::int32_t> positions, float* qkv) const {
  for (std::size_t row = 0; row < positions.size(); ++row, qkv += entered_width()) {
    const std::int32_t times = (positions[row] + own_.temperature_offset) / own_.temperature_positions;
    if (times == 0) continue;
    const auto scale = static_cast<float>(1 + own_.temperature_beta * std::log1p(static_cast<double>(times)));
    for (std::int32_t i = 0; i < own_.query_size(); ++i) qkv[i] *= scale;
  }
}

// Attention of query, key, value, for all rows of the batch.
PagedAttentionArgs Attention::arguments(const Workspace& room, const DecoderBatch& batch) const {
  const Chunks chunks = {static_cast<std::int64_t>(batch.token_ids.size()), room.chunk_rows};
  const float* const key = own_.has_own_kv() ? room.entered + own_.query_size() : nullptr;
  const LayerKv kv = batch.kv_of(layer_);
  return {.layout = kv.layout,
          .cache = batch.cache,
          .layer = kv.layer,
          .sequences = kv.sequences,
          .rows_at_once = chunks[0].count,
          .query = room.entered,
          .key = key,
          .value = key != nullptr ? key + own_.kv_size() : nullptr,
          .row_stride = entered_width(),
          .num_query_heads = own_.num_heads,
          .scale = own_.scale,
          .causal = own_.causal,
          .sliding_window = own_.sliding_window,
          .chunks = own_.chunks,
          .softcap = own_.softcap,
          .sinks = sinks_.empty() ? nullptr : sinks_.data(),
          .slopes = own_.slopes.empty() ? nullptr : own_.slopes.data(),
          .output = room.mixed};
}

}  // namespace

std::unique_ptr<Mixer> make_part(const AttentionConfig& config, const LayerPlace& place,
                                 const DecoderConfig& decoder, WeightLoader& loader) {
  return std::make_unique<Attention>(config, place, decoder, loader);
}

}  // namespace pagoda
