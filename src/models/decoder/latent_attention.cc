// Latent attention (MLA): a token keeps one row for all heads, a latent vector and a rotated part; each
// head's keys and values are products with it. Only the absorbed form is implemented: a head's query is
// multiplied by its key matrix before attention over the rows, and the result by its value matrix. A row's
// bits are therefore the same whether it was decoded, recomputed or cached, and no keys or values are
// materialised. Source: DeepSeek-V2 (arXiv 2405.04434) §2.1 and its appendix on absorption.
//
//     [qa | c | k] = W_down x      q = W_up rms(qa), or W_query x; per head [n | r]
//     kept: [rms(c) | rope(k)]     a head's query is [K^T n | rope(r)], its result V (its part of rms(c))
//
// With several ranks, each has some heads, and all keep the same rows.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "kernels/elementwise.h"
#include "kernels/latent_input.h"
#include "kernels/rows.h"
#include "models/decoder/layer_part.h"

namespace pagoda {
namespace {

class LatentAttention final : public Mixer {
 public:
  LatentAttention(const LatentAttentionConfig& config, const LayerPlace& place);

  std::int64_t projected_width() const override {
    return (own_.num_heads + 1) * std::int64_t{own_.row_size()};
  }
  std::int64_t mixed_width() const override { return std::int64_t{own_.num_heads} * own_.latent_size; }
  std::int64_t inner_width() const override {
    return std::max(down_.n() + (up_.n() > 0 ? query_width() : 0),
                    std::int64_t{own_.num_heads} * own_.value_size);
  }
  Products input_products() override {
    return own_.query_rank > 0 ? Products{&down_, &up_} : Products{&down_};
  }
  Products output_products() override { return {&output_}; }
  void project_in(const Workspace& workspace, const DecoderBatch& batch, Rows rows,
                  const LinearInput& input) override;
  void mix(const Workspace& workspace, const DecoderBatch& batch) override {
    paged_attention(*workspace.context, arguments(workspace, batch));
  }
  void list_ahead(const Workspace& workspace, const DecoderBatch& batch, ReadAhead& out) const override {
    list_context(*workspace.context, arguments(workspace, batch), out);
  }
  Status project_out(const Workspace& workspace, Rows rows, bool accumulate, const Buffer& y) override;

 private:
  std::int64_t query_width() const { return std::int64_t{own_.num_heads} * own_.query_size(); }
  PagedAttentionArgs arguments(const Workspace& workspace, const DecoderBatch& batch) const;
  void load_queries(const LatentAttentionConfig& config, const LayerPlace& place, Range heads);
  void load_heads(const LatentAttentionConfig& config, const LayerPlace& place, Range heads);
  Buffer projected(const Workspace& workspace) const {
    return workspace.projected.with_stride(projected_width());
  }

  LatentAttentionConfig own_;  // with this rank's head count
  std::int32_t layer_;
  KvScales kv_scales_;
  std::vector<Range> columns_;  // columns of the output matrix, by rank
  PackedLinear down_;           // [query_rank | row], or [queries | row]
  PackedLinear up_;             // second product of queries, if they have a rank
  PlacedVector query_norm_, latent_norm_;
  std::vector<PackedLinear> keys_, values_;  // by head: [latent, nope], [value, latent]
  PackedLinear output_;
};

LatentAttention::LatentAttention(const LatentAttentionConfig& config, const LayerPlace& place)
    : own_(config), layer_(place.index) {
  WeightLoader& loader = place.loader;
  const HeadShard& shard = place.shard.heads;
  own_.num_heads = static_cast<std::int32_t>(shard.query.count);
  kv_scales_ = loader.kv_scales(place.prefix);
  const WeightNames& names = loader.names();
  NormConfig norm = place.norm;
  norm.eps = config.norm_eps;
  if (config.query_rank > 0)
    query_norm_ =
        loader.place(loader.norm_vector(place.prefix + names.query_a_norm, config.query_rank, norm));
  latent_norm_ = loader.place(loader.norm_vector(place.prefix + names.kv_a_norm, config.latent_size, norm));
  load_queries(config, place, shard.query);
  load_heads(config, place, shard.query);
  const auto values = [&](Range heads) {
    return Range{heads.first * config.value_size, heads.count * config.value_size};
  };
  for (const Range& heads : shard.ranks) columns_.push_back(values(heads));
  output_ = loader.last_linear(place.prefix + names.attention_output, place.hidden_size,
                               std::int64_t{config.num_heads} * config.value_size, values(shard.query),
                               place.shard);
}

// Loads the queries of these heads, and the matrix of the kept row.
void LatentAttention::load_queries(const LatentAttentionConfig& config, const LayerPlace& place,
                                   Range heads) {
  WeightLoader& loader = place.loader;
  const bool interleaved = place.decoder.interleaved_rows;
  const WeightNames& names = loader.names();
  const std::int64_t size = config.query_size(), all = config.num_heads * size;
  const std::array own = {Range{heads.first * size, heads.count * size}};
  const std::array row = {Range{0, config.row_size()}};
  const auto reorder_queries = [&](Matrices& matrices) {
    if (interleaved)
      loader.reorder_rows(matrices, 0, heads.count, size, config.rope_size, 0, config.nope_size);
  };
  Matrices down;
  if (config.query_rank > 0) {
    Matrices up;
    loader.add(up, place.prefix + names.query_b, all, config.query_rank, own);
    reorder_queries(up);
    up_ = loader.pack(std::move(up), place.prefix + names.query_b, LinearForm::stacked, RowsAdapt::yes);
    loader.add(down, place.prefix + names.query_a, config.query_rank, place.hidden_size,
               std::array{Range{0, config.query_rank}});
  } else {
    loader.add(down, place.prefix + names.query, all, place.hidden_size, own);
    reorder_queries(down);
  }
  loader.add(down, place.prefix + names.kv_a, config.row_size(), place.hidden_size, row);
  if (interleaved)
    loader.reorder_rows(down, 1, 1, config.row_size(), config.rope_size,
                        config.query_rank > 0 ? config.query_rank : own[0].count, config.latent_size);
  down_ = loader.pack(std::move(down), place.prefix + names.kv_a, LinearForm::stacked, RowsAdapt::yes);
}

// Loads each head's two matrices: separate as in newer GGUF files, or head by head in one.
void LatentAttention::load_heads(const LatentAttentionConfig& config, const LayerPlace& place, Range heads) {
  WeightLoader& loader = place.loader;
  const WeightNames& names = loader.names();
  WeightReader& reader = loader.reader();
  const std::int64_t latent = config.latent_size, nope = config.nope_size, value = config.value_size;
  const std::string key_name = place.prefix + names.key_b, value_name = place.prefix + names.value_b,
                    both_name = place.prefix + names.kv_b;
  const bool apart = !names.key_b.empty() && reader.has(key_name + ".weight");
  TensorView all_keys, all_values, both;
  if (apart) {
    all_keys = reader.tensor(key_name + ".weight", {config.num_heads, latent, nope});
    all_values = reader.tensor(value_name + ".weight", {config.num_heads, value, latent});
  } else {
    both = reader.matrix(both_name + ".weight", config.num_heads * (nope + value), latent);
  }
  for (std::int64_t head = heads.first; head < heads.end() && loader.status().ok(); ++head) {
    Matrices key_matrix, value_matrix;
    // Their inputs are latent vectors and weighted sums.
    key_matrix.own_inputs = value_matrix.own_inputs = true;
    if (apart) {
      loader.add_rows(key_matrix, part_at(all_keys, head), concat(key_name, " of ", head), {0, latent});
      loader.add_rows(value_matrix, part_at(all_values, head), concat(value_name, " of ", head), {0, value});
    } else {
      const std::int64_t first = head * (nope + value);
      loader.add_transposed(key_matrix, with_rows(both, {first, nope}), concat(both_name, " at ", first));
      loader.add_rows(value_matrix, both, both_name, {first + nope, value});
    }
    keys_.push_back(loader.pack(std::move(key_matrix), apart ? key_name : both_name));
    values_.push_back(loader.pack(std::move(value_matrix), apart ? value_name : both_name));
  }
}

void LatentAttention::project_in(const Workspace& workspace, const DecoderBatch& batch, Rows rows,
                                 const LinearInput& input) {
  const KernelContext& context = *workspace.context;
  const std::int64_t row_size = own_.row_size(), down_width = down_.n();
  const Buffer down = workspace.inner.with_stride(down_width);
  linear(context, down_, input, rows.count, down);
  Buffer queries = down;
  if (own_.query_rank > 0) {
    queries = workspace.inner.at(0, rows.count * down_width).with_stride(query_width());
    LinearInput normed = LinearInput::rows(down);
    normed.op = LinearInput::Op::rms_norm;
    normed.weight = query_norm_.data();
    normed.eps = own_.norm_eps;
    normed.adapters = input.adapters;
    linear(context, up_, normed, rows.count, queries);
  }
  const Buffer out = projected(workspace).at(rows.first);
  head_products(context, keys_, rows.count, queries, own_.query_size(), out, row_size);
  latent_rows(context,
              {.num_heads = own_.num_heads,
               .query_size = own_.query_size(),
               .nope_size = own_.nope_size,
               .latent_size = own_.latent_size,
               .rope_size = own_.rope_size,
               .weight = latent_norm_.data(),
               .eps = own_.norm_eps},
              rows.count, queries, down.at(0, down_width - row_size), out);
  const auto positions =
      batch.positions.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
  RopeTable& table = workspace.ropes[static_cast<std::size_t>(own_.rope)];
  const RopeRows turns = table.of_rows(context, positions, rows.first);
  rope(context, out.at(0, own_.latent_size), rows.count, own_.num_heads + 1, own_.row_size(), own_.rope_size,
       turns.index, turns.table);
  if (own_.temperature_beta == 0) return;
  scale_by_position(context, {rows.count, own_.num_heads * row_size},
                    {.beta = own_.temperature_beta, .positions = own_.temperature_positions}, positions, out);
}

PagedAttentionArgs LatentAttention::arguments(const Workspace& workspace, const DecoderBatch& batch) const {
  const Chunks chunks = {static_cast<std::int64_t>(batch.token_ids.size()), workspace.chunk_rows};
  const LayerKv kv = batch.kv_of(layer_);
  return {.layout = kv.layout,
          .cache = batch.cache,
          .layer = kv.layer,
          .sequences = kv.sequences,
          .rows_at_once = chunks[0].count,
          .query = projected(workspace),
          .key = projected(workspace).at(0, std::int64_t{own_.num_heads} * own_.row_size()),
          .num_query_heads = own_.num_heads,
          .scale = own_.scale,
          .key_scale = kv_scales_.key,
          .output = workspace.mixed.with_stride(mixed_width())};
}

Status LatentAttention::project_out(const Workspace& workspace, Rows rows, bool accumulate, const Buffer& y) {
  const Buffer values = workspace.inner.with_stride(std::int64_t{own_.num_heads} * own_.value_size);
  head_products(*workspace.context, values_, rows.count,
                workspace.mixed.with_stride(mixed_width()).at(rows.first), own_.latent_size, values,
                own_.value_size);
  return workspace.ranks->last_product(*workspace.context, output_, columns_, values,
                                       workspace.adapters_from(rows.first), rows.count, accumulate, y);
}

}  // namespace

std::unique_ptr<Mixer> make_part(const LatentAttentionConfig& config, const LayerPlace& place) {
  return std::make_unique<LatentAttention>(config, place);
}

}  // namespace pagoda
