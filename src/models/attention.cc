// Attention: query, key and value of each token in one product, rotated; attention over the paged cache; the
// output matrix. Several query heads may share a key-value head (arXiv 2305.13245).
#include "kernels/attention_input.h"
#include "kernels/elementwise.h"
#include "kernels/rows.h"
#include "models/attention_weights.h"
#include "models/layer_part.h"

namespace pagoda {
namespace {

HeadNorms::Kind kind_of(QueryKeyNorm norm) {
  switch (norm) {
    case QueryKeyNorm::none:
      break;
    case QueryKeyNorm::per_head:
    case QueryKeyNorm::per_head_unweighted:
      return HeadNorms::Kind::rms;
    case QueryKeyNorm::whole:
      return HeadNorms::Kind::rms_whole;
    case QueryKeyNorm::each_head:
      return HeadNorms::Kind::layer;
  }
  return HeadNorms::Kind::none;
}

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
    const std::int64_t num_rows = std::ssize(batch.token_ids);
    const Buffer gates = entered(room).at(0, own_.qkv_size()), mixed = room.mixed.with_stride(mixed_width());
    if (own_.output_gate == OutputGate::sigmoid)
      times_sigmoid(*room.context, num_rows, mixed_width(), mixed, gates);
    else if (own_.output_gate != OutputGate::none)
      times_gates(
          *room.context, {num_rows, mixed_width()},
          own_.output_gate == OutputGate::sigmoid_of_head ? GateFunction::sigmoid : GateFunction::softplus,
          own_.gate_size(), gates, mixed);
  }
  void list_ahead(const Workspace& room, const DecoderBatch& batch, ReadAhead& out) const override {
    list_context(*room.context, arguments(room, batch), out);
  }
  Status leave(const Workspace& room, Rows rows, bool accumulate, const Buffer& y) override {
    const Buffer mixed = room.mixed.with_stride(mixed_width());
    return room.ranks->last_product(*room.context, output_, columns_, mixed.at(rows.first), rows.count,
                                    accumulate, y);
  }

 private:
  PagedAttentionArgs arguments(const Workspace& room, const DecoderBatch& batch) const;
  Buffer entered(const Workspace& room) const { return room.entered.with_stride(entered_width()); }

  AttentionConfig own_;  // with this rank's numbers of heads
  std::int32_t layer_;
  std::int32_t rotary_size_ = 0;
  float rotary_amplitude_ = 1;
  float norm_eps_;
  std::vector<Range> columns_;  // columns of the output matrix, by rank
  PackedLinear qkv_, output_;
  PlacedVector query_norm_, key_norm_;
  PlacedVector sinks_, slopes_;  // for this rank's query heads
};

Attention::Attention(const AttentionConfig& config, const LayerPlace& place, const DecoderConfig& decoder,
                     WeightLoader& loader)
    : own_(config), layer_(place.index), norm_eps_(place.norm->eps) {
  const HeadShard& shard = place.shard->heads;
  own_.num_heads = static_cast<std::int32_t>(shard.query.count);
  own_.num_kv_heads = static_cast<std::int32_t>(shard.kv.count);
  if (config.rope != kNoRope) {
    const RopeConfig& rope = decoder.ropes[static_cast<std::size_t>(config.rope)];
    rotary_size_ = rope.rotary_size;
    rotary_amplitude_ = rope.attention_factor;
  }
  AttentionWeights weights = read_attention(config, shard, place, decoder, loader);
  query_norm_ = loader.place(std::move(weights.query_norm));
  key_norm_ = loader.place(std::move(weights.key_norm));
  sinks_ = loader.place(std::move(weights.sinks));
  if (!config.slopes.empty())
    slopes_ =
        loader.place({config.slopes.begin() + shard.query.first, config.slopes.begin() + shard.query.end()});
  qkv_ = loader.pack(std::move(weights.query_key_value), weights.name);
  const auto features = [&](Range heads) {
    return Range{heads.first * config.head_size, heads.count * config.head_size};
  };
  for (const Range& heads : shard.ranks) columns_.push_back(features(heads));
  output_ =
      loader.last_linear(place.prefix + loader.names().attention_output, place.hidden_size,
                         config.query_size(), features(shard.query), *place.shard, config.output_factor);
}

void Attention::enter(const Workspace& room, const DecoderBatch& batch, Rows rows, const LinearInput& input) {
  const auto positions =
      batch.positions.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
  AttentionInputArgs args = {.weight = &qkv_,
                             .input = input,
                             .num_rows = rows.count,
                             .num_query_heads = own_.num_heads,
                             .num_kv_heads = own_.has_own_kv() ? own_.num_kv_heads : 0,
                             .head_size = own_.head_size,
                             .norms = {.kind = kind_of(own_.query_key_norm),
                                       .query = query_norm_.data(),
                                       .key = key_norm_.data(),
                                       .values = own_.value_norm,
                                       .behind_rotation = own_.norm_after_rope,
                                       .eps = norm_eps_},
                             .clip = own_.clip,
                             .rotary_size = rotary_size_,
                             .turns = {},
                             .cos_sin = {},
                             .amplitude = rotary_amplitude_,
                             .query_scale = {.beta = own_.temperature_beta,
                                             .offset = own_.temperature_offset,
                                             .positions = own_.temperature_positions},
                             .positions = positions,
                             .output = entered(room).at(rows.first),
                             .written_next = own_.has_own_kv() && rows.count == std::ssize(batch.token_ids)};
  if (rotary_size_ > 0) {
    RopeTable& table = room.ropes[static_cast<std::size_t>(own_.rope)];
    const RopeRows turns = table.of_rows(*room.context, positions, rows.first);
    args.turns = turns.index;
    args.cos_sin = turns.table;
  }
  attention_input(*room.context, args);
}

// Attention of query, key, value, for all rows of the batch.
PagedAttentionArgs Attention::arguments(const Workspace& room, const DecoderBatch& batch) const {
  const Chunks chunks = {static_cast<std::int64_t>(batch.token_ids.size()), room.chunk_rows};
  const Buffer query = entered(room);
  const Buffer key = own_.has_own_kv() ? query.at(0, own_.query_size()) : Buffer();
  const LayerKv kv = batch.kv_of(layer_);
  return {.layout = kv.layout,
          .cache = batch.cache,
          .layer = kv.layer,
          .sequences = kv.sequences,
          .rows_at_once = chunks[0].count,
          .query = query,
          .key = key,
          .value = key.at(0, own_.kv_size()),
          .num_query_heads = own_.num_heads,
          .scale = own_.scale,
          .causal = own_.causal,
          .sliding_window = own_.sliding_window,
          .chunks = own_.chunks,
          .softcap = own_.softcap,
          .sinks = sinks_.data(),
          .slopes = slopes_.data(),
          .output = room.mixed.with_stride(mixed_width())};
}

}  // namespace

std::unique_ptr<Mixer> make_part(const AttentionConfig& config, const LayerPlace& place,
                                 const DecoderConfig& decoder, WeightLoader& loader) {
  return std::make_unique<Attention>(config, place, decoder, loader);
}

}  // namespace pagoda
