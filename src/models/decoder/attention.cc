// Attention: one product for query, key and value of each token, rotation, attention over the paged cache,
// and the output matrix. Several query heads may share a key-value head (arXiv 2305.13245).
#include <algorithm>
#include <array>

#include "kernels/attention_input.h"
#include "kernels/dequantize.h"
#include "kernels/elementwise.h"
#include "kernels/rows.h"
#include "models/decoder/layer_part.h"

namespace pagoda {
namespace {

// Rows of query, key and value in a matrix grouped by key-value head: its query heads, then its key, then its
// value.
std::vector<Range> rows_by_group(const AttentionConfig& config, const HeadShard& shard) {
  const std::int64_t group = config.num_heads / config.num_kv_heads, size = config.head_size;
  std::vector<Range> ranges;
  for (std::int64_t head = shard.query.first; head < shard.query.end(); ++head)
    ranges.push_back({(head / group * (group + 2) + head % group) * size, size});
  for (const std::int64_t part : {group, group + 1})
    for (std::int64_t head = shard.kv.first; head < shard.kv.end(); ++head)
      ranges.push_back({(head * (group + 2) + part) * size, size});
  return ranges;
}

// Rows of queries (or, `part` 1, of gates) in a matrix in which each head's gate follows its queries.
std::vector<Range> every_other_head(const AttentionConfig& config, const HeadShard& shard,
                                    std::int64_t part) {
  std::vector<Range> ranges;
  for (std::int64_t head = shard.query.first; head < shard.query.end(); ++head)
    ranges.push_back({(2 * head + part) * config.head_size, config.head_size});
  return ranges;
}

// Norm weights of heads `own` of `count`, contiguous. If `reordered` elements of each head are adjacent pairs
// in the file, they are reordered like the heads' rows.
std::vector<float> head_norms(const std::string& name, std::int64_t count, Range own, std::int64_t size,
                              std::int64_t reordered, WeightLoader& loader) {
  WeightReader& reader = loader.reader();
  std::vector<float> weights;
  if (is_numbered(name)) {
    for (std::int64_t head = 0; head < count && reader.status().ok(); ++head) {
      const std::string each = numbered(name + ".weight", head);
      if (head < own.first || head >= own.end()) {  // another rank's
        reader.ignore(each);
        continue;
      }
      const std::vector<float> weight = reader.vector(each, size);
      weights.insert(weights.end(), weight.begin(), weight.end());
    }
  } else if (const TensorView all = reader.matrix(name + ".weight", count, size); reader.status().ok()) {
    weights.resize(static_cast<std::size_t>(own.count * size));
    for (std::int64_t head = 0; head < own.count; ++head)
      dequantize_row(all, own.first + head, weights.data() + head * size);
  }
  if (!reader.status().ok()) return {};
  for (auto head = weights.begin(); head != weights.end() && reordered > 0; head += size) {
    const std::vector<float> pairs(head, head + reordered);
    for (std::int64_t i = 0; i < reordered; ++i)
      head[i % 2 * (reordered / 2) + i / 2] = pairs[static_cast<std::size_t>(i)];
  }
  return weights;
}

// For each rank, the heads that no earlier rank has.
std::vector<Range> without_repeats(std::span<const Range> ranks) {
  std::vector<Range> own;
  std::int64_t end = 0;
  for (const Range& heads : ranks) {
    own.push_back({end, heads.end() - end});
    end = heads.end();
  }
  return own;
}

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
  Attention(const AttentionConfig& config, const LayerPlace& place);

  std::int64_t projected_width() const override { return own_.qkv_size() + own_.gate_size(); }
  std::int64_t mixed_width() const override { return own_.query_size(); }
  std::int64_t whole_width() const override {
    return own_.query_key_norm == QueryKeyNorm::whole || own_.inner_norm ? columns_.back().end() : 0;
  }
  Products input_products() override { return {&qkv_}; }
  Products output_products() override { return {&output_}; }
  void project_in(const Workspace& workspace, const DecoderBatch& batch, Rows rows,
                  const LinearInput& input) override;
  void mix(const Workspace& workspace, const DecoderBatch& batch) override {
    PagedAttentionArgs args = arguments(workspace, batch);
    // Adapters read the rows as floats.
    if (workspace.output_is_next && workspace.adapters == nullptr && own_.output_gate == OutputGate::none &&
        inner_norm_.empty() && !workspace.ranks->split())
      args.next = &output_;
    paged_attention(*workspace.context, args);
    const std::int64_t num_rows = std::ssize(batch.token_ids);
    const Buffer gates = projected(workspace).at(0, own_.qkv_size()),
                 mixed = workspace.mixed.with_stride(mixed_width());
    if (own_.output_gate == OutputGate::sigmoid)
      times_sigmoid(*workspace.context, num_rows, mixed_width(), mixed, gates);
    else if (own_.output_gate != OutputGate::none)
      times_gates(
          *workspace.context, {num_rows, mixed_width()},
          own_.output_gate == OutputGate::sigmoid_of_head ? GateFunction::sigmoid : GateFunction::softplus,
          own_.gate_size(), gates, mixed);
  }
  void list_ahead(const Workspace& workspace, const DecoderBatch& batch, ReadAhead& out) const override {
    list_context(*workspace.context, arguments(workspace, batch), out);
  }
  Status project_out(const Workspace& workspace, Rows rows, bool accumulate, const Buffer& y) override {
    const Buffer mixed = workspace.mixed.with_stride(mixed_width()).at(rows.first);
    if (!inner_norm_.empty()) {
      const Buffer all = workspace.ranks->whole_rows(*workspace.context, columns_, mixed, rows.count);
      rms_norm(*workspace.context, all, rows.count, columns_.back().end(), inner_norm_.data(), norm_eps_,
               all);
      workspace.ranks->keep_own(*workspace.context, queries_, all, rows.count, mixed);
    }
    return workspace.ranks->last_product(*workspace.context, output_, columns_, mixed,
                                         workspace.adapters_from(rows.first), rows.count, accumulate, y);
  }

 private:
  void load_norms(const AttentionConfig& config, const LayerPlace& place);
  void load_products(const AttentionConfig& config, const LayerPlace& place);
  void norm_over_ranks(const Workspace& workspace, const Buffer& rows, std::int64_t count) const;
  PagedAttentionArgs arguments(const Workspace& workspace, const DecoderBatch& batch) const;
  Buffer projected(const Workspace& workspace) const {
    return workspace.projected.with_stride(projected_width());
  }

  AttentionConfig own_;  // with this rank's head counts
  std::int32_t layer_;
  std::int32_t rotary_size_ = 0;
  float rotary_amplitude_ = 1;
  float norm_eps_;
  KvScales kv_scales_;
  std::vector<Range> columns_;      // columns of the output matrix, by rank
  std::vector<Range> key_columns_;  // columns of all keys, assigned to the first rank that has them
  Range queries_, keys_;            // this rank's columns of these
  PackedLinear qkv_, output_;
  PlacedVector query_norm_, key_norm_, inner_norm_;
  PlacedVector sinks_, slopes_;  // for this rank's query heads
};

Attention::Attention(const AttentionConfig& config, const LayerPlace& place)
    : own_(config), layer_(place.index), norm_eps_(place.norm.eps) {
  WeightLoader& loader = place.loader;
  const HeadShard& shard = place.shard.heads;
  const auto own_heads = [&](const std::vector<float>& all) {
    return std::vector<float>(all.begin() + shard.query.first, all.begin() + shard.query.end());
  };
  own_.num_heads = static_cast<std::int32_t>(shard.query.count);
  own_.num_kv_heads = static_cast<std::int32_t>(shard.kv.count);
  if (config.rope != kNoRope) {
    const RopeConfig& rope = place.decoder.ropes[static_cast<std::size_t>(config.rope)];
    rotary_size_ = rope.rotary_size;
    rotary_amplitude_ = rope.attention_factor;
  }
  kv_scales_ =
      loader.kv_scales(config.has_own_kv() ? place.prefix : loader.names().layer_prefix(config.kv_layer));
  load_norms(config, place);
  if (config.sinks) {
    const std::vector<float> all =
        loader.reader().vector(place.prefix + loader.names().sinks, config.num_heads);
    if (!all.empty()) sinks_ = loader.place(own_heads(all));
  }
  if (!config.slopes.empty()) slopes_ = loader.place(own_heads(config.slopes));
  load_products(config, place);
}

void Attention::load_norms(const AttentionConfig& config, const LayerPlace& place) {
  WeightLoader& loader = place.loader;
  const HeadShard& shard = place.shard.heads;
  const std::string query_name = place.prefix + loader.names().query_norm,
                    key_name = place.prefix + loader.names().key_norm;
  std::vector<float> query, key;
  if (config.query_key_norm == QueryKeyNorm::each_head) {
    const std::int32_t size = config.head_size, reordered = place.decoder.interleaved_rows ? rotary_size_ : 0;
    query = head_norms(query_name, config.num_heads, shard.query, size, reordered, loader);
    key = head_norms(key_name, config.num_kv_heads, shard.kv, size, reordered, loader);
  } else if (config.query_key_norm == QueryKeyNorm::per_head_unweighted) {
    query.assign(static_cast<std::size_t>(config.head_size), 1.0f);
    key = query;
  } else if (config.query_key_norm != QueryKeyNorm::none) {
    const bool whole = config.query_key_norm == QueryKeyNorm::whole;
    query = loader.norm_vector(query_name, whole ? config.query_size() : config.head_size, place.norm);
    if (config.has_own_kv())
      key = loader.norm_vector(key_name, whole ? config.kv_size() : config.head_size, place.norm);
  }
  query_norm_ = loader.place(std::move(query));
  key_norm_ = loader.place(std::move(key));
  if (config.inner_norm)
    inner_norm_ = loader.place(loader.norm_vector(place.prefix + loader.names().attention_inner_norm,
                                                  config.query_size(), place.norm));
}

// Loads the rows of query, key and value, then those of the queries' gates, in any of the orders that files
// use; and the output matrix.
void Attention::load_products(const AttentionConfig& config, const LayerPlace& place) {
  WeightLoader& loader = place.loader;
  const HeadShard& shard = place.shard.heads;
  const WeightNames& names = loader.names();
  const std::string& prefix = place.prefix;
  const auto features = [&](Range heads) {
    return Range{heads.first * config.head_size, heads.count * config.head_size};
  };
  const Range query = features(shard.query), kv = features(shard.kv);
  Matrices qkv;
  const bool fused = !names.fused_qkv.empty() &&
                     (names.query.empty() || loader.reader().has(prefix + names.fused_qkv + ".weight"));
  if (fused && names.qkv_by_group) {
    loader.add(qkv, prefix + names.fused_qkv, config.qkv_size(), place.hidden_size,
               rows_by_group(config, shard));
  } else {
    const bool gates_between = config.gate_size() > 0 && names.output_gate.empty();
    const std::int64_t query_rows = gates_between ? 2 * config.query_size() : config.query_size();
    // Adds rows of one of the three tensors, or of its section (from `begin`) in the fused matrix.
    const auto add = [&](const std::string& name, std::int64_t begin, std::int64_t count,
                         std::vector<Range> rows, float factor) {
      if (fused)
        for (Range& range : rows) range.first += begin;
      loader.add(qkv, prefix + (fused ? names.fused_qkv : name),
                 fused ? query_rows + 2 * config.kv_size() : count, place.hidden_size, rows, factor,
                 config.input_factor);
    };
    const auto add_queries = [&](std::int64_t part) {  // or their gates, if part is 1
      add(names.query, 0, query_rows,
          gates_between ? every_other_head(config, shard, part) : std::vector{query}, config.query_factor);
    };
    add_queries(0);
    // Some files have these tensors even for layers that do not use them.
    if (!config.has_own_kv())
      for (const std::string& name : {names.key, names.value, names.key_norm})
        loader.ignore(prefix + name + ".weight");
    // Keys that are also values are multiplied twice, since norm and rotation modify keys in place.
    if (config.has_own_kv()) {
      const std::int64_t value = query_rows + (config.key_is_value ? 0 : config.kv_size());
      add(names.key, query_rows, config.kv_size(), {kv}, config.key_factor);
      add(config.key_is_value ? names.key : names.value, value, config.kv_size(), {kv}, config.value_factor);
    }
    if (gates_between)
      add_queries(1);
    else if (config.gate_size() > 0)
      loader.add(qkv, prefix + names.output_gate, config.gate_size(), place.hidden_size,
                 std::array{config.gates_whole_heads() ? shard.query : query});
  }
  if (place.decoder.interleaved_rows && rotary_size_ > 0 && !names.qkv_by_group) {
    loader.reorder_rows(qkv, 0, shard.query.count, config.head_size, rotary_size_, 0);
    loader.reorder_rows(qkv, 1, shard.kv.count, config.head_size, rotary_size_, query.count);
  }
  qkv_ = loader.pack(std::move(qkv), prefix + (fused ? names.fused_qkv : names.query), LinearForm::stacked,
                     RowsAdapt::yes);
  columns_ = features_of(shard.ranks, config.head_size);
  key_columns_ = features_of(without_repeats(shard.kv_ranks), config.head_size);
  queries_ = query;
  keys_ = kv;
  output_ = loader.last_linear(prefix + names.attention_output, place.hidden_size, config.query_size(), query,
                               place.shard, config.output_factor);
}

// Norms all query heads of a row together, over all ranks, and all key heads likewise.
void Attention::norm_over_ranks(const Workspace& workspace, const Buffer& rows, std::int64_t count) const {
  const auto normalize = [&](const Buffer& heads, std::span<const Range> columns, Range own,
                             const PlacedVector& weight) {
    const Buffer all = workspace.ranks->whole_rows(*workspace.context, columns, heads, count);
    attention_input(*workspace.context,
                    {.num_rows = count,
                     .num_query_heads = static_cast<std::int32_t>(columns.back().end() / own_.head_size),
                     .head_size = own_.head_size,
                     .norms = {.kind = HeadNorms::Kind::rms_whole, .query = weight.data(), .eps = norm_eps_},
                     .output = all});
    workspace.ranks->keep_own(*workspace.context, own, all, count, heads);
  };
  normalize(rows, columns_, queries_, query_norm_);
  if (own_.has_own_kv()) normalize(rows.at(0, own_.query_size()), key_columns_, keys_, key_norm_);
}

void Attention::project_in(const Workspace& workspace, const DecoderBatch& batch, Rows rows,
                           const LinearInput& input) {
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
                             .output = projected(workspace).at(rows.first),
                             .written_next = own_.has_own_kv() && rows.count == std::ssize(batch.token_ids)};
  if (rotary_size_ > 0) {
    RopeTable& table = workspace.ropes[static_cast<std::size_t>(own_.rope)];
    const RopeRows turns = table.of_rows(*workspace.context, positions, rows.first);
    args.turns = turns.index;
    args.cos_sin = turns.table;
  }
  if (own_.query_key_norm == QueryKeyNorm::whole && workspace.ranks->split()) {
    linear(*workspace.context, qkv_, input, rows.count, args.output);
    norm_over_ranks(workspace, args.output, rows.count);
    args.weight = nullptr;
    args.norms.kind = HeadNorms::Kind::none;
  }
  attention_input(*workspace.context, args);
}

// Arguments of attention for all rows of the batch.
PagedAttentionArgs Attention::arguments(const Workspace& workspace, const DecoderBatch& batch) const {
  const Chunks chunks = {static_cast<std::int64_t>(batch.token_ids.size()), workspace.chunk_rows};
  const Buffer query = projected(workspace);
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
          .key_scale = kv_scales_.key,
          .value_scale = kv_scales_.value,
          .causal = own_.causal,
          .sliding_window = own_.sliding_window,
          .chunks = own_.chunks,
          .softcap = own_.softcap,
          .sinks = sinks_.data(),
          .slopes = slopes_.data(),
          .output = workspace.mixed.with_stride(mixed_width())};
}

}  // namespace

std::unique_ptr<Mixer> make_part(const AttentionConfig& config, const LayerPlace& place) {
  return std::make_unique<Attention>(config, place);
}

}  // namespace pagoda
