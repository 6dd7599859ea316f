#include "models/decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/read_ahead.h"
#include "models/read_config.h"
#include "models/weights/weight_reader.h"

namespace pagoda {
namespace {

// Number of rows that pass through the row-wise parts of a layer together. A small number keeps activations
// in the second-level caches, but each chunk reads the layer's weights again.
std::int64_t chunk_rows(std::int32_t max_batched_tokens) {
  return std::min<std::int64_t>(max_batched_tokens, 256);
}

constexpr std::int64_t kLogitChunk = 64;  // rows of logits per gather

// True if a sublayer adds its output to x directly, without a separate pass.
bool adds_plainly(const LayerConfig& layer, const NormPlaces& places) {
  return !places.branch && layer.residual_scale == 1;
}

bool are_all_rows(std::span<const std::int32_t> rows, std::size_t count) {
  std::int32_t next = 0;
  return rows.size() == count && std::ranges::all_of(rows, [&](std::int32_t row) { return row == next++; });
}

}  // namespace

float embedding_scale(const DecoderConfig& config, DType stored) {
  const float value = config.embedding_scale;
  if (!config.scale_as_embedding || (stored != DType::bf16 && stored != DType::f16)) return value;
  int exponent = 0;
  const float digits = stored == DType::bf16 ? 256.0f : 2048.0f;  // significand range: 8 or 11 bits
  const float significand = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(significand * digits) / digits, exponent);
}

bool head_is_tied(const ModelSource& source, const WeightNames& names, const DecoderConfig& config) {
  if (source.format() == ModelFormat::gguf) return source.find(names.head + ".weight") == nullptr;
  if (!config.tied_head || !config.head) return config.tied_head;
  WeightReader reader(source, names.prefix, names.other_prefixes);
  const std::string& name = reader.has(names.head + ".weight") ? names.head : names.other_head;
  if (name.empty() || !reader.has(name + ".weight")) return true;
  const TensorView head = reader.matrix(name + ".weight", config.vocab_size, config.embedding_size);
  const TensorView embedding =
      reader.matrix(names.token_embedding + ".weight", config.vocab_size, config.embedding_size);
  if (!reader.status().ok()) return true;  // the loader reports the error
  if (head.dtype != embedding.dtype) return false;
  bool same = true;
  for (const TensorView& matrix : {head, embedding}) same = same && source.bring_in(matrix).ok();
  same = same && std::memcmp(head.data, embedding.data, static_cast<std::size_t>(head.bytes())) == 0;
  for (const TensorView& matrix : {head, embedding}) source.give_back(matrix);
  return same;
}

namespace {

struct NamedDecoder {
  DecoderConfig config;
  WeightNames names;
};

// Returns a source's decoder and its files' weight names.
Result<NamedDecoder> name_weights(const ModelSource& source) {
  PAGODA_ASSIGN_OR_RETURN(auto model, read_model_config(source));
  return NamedDecoder{std::move(model.decoder), model.names(source.format())};
}

}  // namespace

Status DecoderModel::check_split(const ModelSource& source, std::string_view dtype, std::int32_t size,
                                 ExchangeKind exchange, MixtureCut mixtures) {
  PAGODA_ASSIGN_OR_RETURN(auto named, name_weights(source));
  auto& [config, names] = named;
  const auto shard =
      plan_shard(config, column_blocks(source, names, config, dtype), 0, size, exchange, mixtures);
  return shard ? ok_status() : shard.error();
}

Status DecoderModel::check_tensors(const ModelSource& source, bool with_head) {
  PAGODA_ASSIGN_OR_RETURN(auto named, name_weights(source));
  auto& [config, names] = named;
  config.head = with_head;
  config.tied_head = head_is_tied(source, names, config);
  PAGODA_ASSIGN_OR_RETURN(const auto shard, plan_shard(config, {}, 0, 1, ExchangeKind::sum));
  const auto weights = load_decoder_weights(
      {{.backend = Backend::reference}, source, names, config, shard, "auto"}, WeightStore::checking());
  return weights ? ok_status() : weights.error();
}

Result<std::unique_ptr<DecoderModel>> DecoderModel::load(const KernelContext& context,
                                                         const ModelSource& source, std::string_view dtype,
                                                         std::int32_t max_batched_tokens,
                                                         const ParallelContext& parallel,
                                                         const WeightCaching* caching, bool with_head) {
  PAGODA_ASSIGN_OR_RETURN(const auto model, read_model_config(source));
  return load(context, source, model, dtype, max_batched_tokens, parallel, caching, with_head);
}

Result<std::unique_ptr<DecoderModel>> DecoderModel::load(const KernelContext& context,
                                                         const ModelSource& source, const ModelInfo& model,
                                                         std::string_view dtype,
                                                         std::int32_t max_batched_tokens,
                                                         const ParallelContext& parallel,
                                                         const WeightCaching* caching, bool with_head) {
  if (max_batched_tokens <= 0) return invalid_argument("max_num_batched_tokens must be positive");
  DecoderConfig config = model.decoder;
  const WeightNames names = model.names(source.format());
  config.head = with_head;
  config.tied_head = head_is_tied(source, names, config);
  PAGODA_ASSIGN_OR_RETURN(
      auto shard,
      plan_shard(config, column_blocks(source, names, config, dtype), parallel.rank(), parallel.size(),
                 parallel.deterministic ? ExchangeKind::gather : ExchangeKind::sum,
                 on_device(context) ? MixtureCut::features : MixtureCut::experts));

  std::unique_ptr<DecoderModel> decoder(new DecoderModel);
  decoder->context_ = context;
  decoder->parallel_ = parallel;
  decoder->config_ = config;
  decoder->shard_ = std::move(shard);
  decoder->max_batched_tokens_ = max_batched_tokens;
  const std::string_view cut = parallel.size() == 1     ? ""
                               : parallel.deterministic ? " by rows"
                                                        : " by columns";
  const std::string part =
      concat(parallel.rank(), " of ", parallel.size(), cut, with_head ? "" : " headless");
  PAGODA_ASSIGN_OR_RETURN(auto loaded,
                          load_cached_weights({context, source, names, config, decoder->shard_, dtype}, part,
                                              caching != nullptr ? *caching : WeightCaching{}));
  decoder->weights_ = std::move(loaded.weights);
  decoder->weight_writer_ = std::move(loaded.writer);
  decoder->embedding_scale_ = embedding_scale(config, decoder->weights_.token_embedding.dtype);
  for (std::size_t i = 0; i < config.ropes.size(); ++i) {
    const DecoderWeights& weights = decoder->weights_;
    const bool first = i == 0;  // the file's divisors apply to the first rotation
    PAGODA_ASSIGN_OR_RETURN(
        auto rope,
        RopeTable::create(context, config.ropes[i], first ? weights.rope_factors : std::vector<float>(),
                          config.max_positions, first ? weights.rope_factors_long : std::vector<float>(),
                          max_batched_tokens));
    decoder->ropes_.push_back(std::move(rope));
  }
  decoder->workspace_.context = &decoder->context_;
  decoder->workspace_.ranks = &decoder->exchange_;
  decoder->workspace_.ropes = decoder->ropes_;
  decoder->workspace_.chunk_rows = on_device(context) ? max_batched_tokens : chunk_rows(max_batched_tokens);
  PAGODA_RETURN_IF_ERROR(decoder->reserve_buffers());
  return decoder;
}

void DecoderModel::release() {
  weight_writer_ = {};
  weights_ = {};
  memory_ = {};
}

Status DecoderModel::reserve_buffers() {
  std::int64_t projected = 0, mixed = 0, inner = 0, seen = 0, whole = 0, made_whole = 0, around = 0;
  bool branches = false, parallel = false;
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    const DecoderLayer& layer = weights_.layers[i];
    const LayerConfig& config = config_.layers[i];
    projected = std::max(projected, layer.mixer->projected_width());
    mixed = std::max(mixed, layer.mixer->mixed_width());
    for (PackedLinear* last : layer.mixer->output_products()) whole = std::max(whole, last->k());
    for (PackedLinear* last : layer.feed_forward->output_products()) whole = std::max(whole, last->k());
    made_whole = std::max({made_whole, layer.mixer->whole_width(), layer.feed_forward->whole_width()});
    seen = std::max(seen, layer.feed_forward->seen_width());
    inner = std::max({inner, layer.feed_forward->inner_width(), layer.mixer->inner_width()});
    branches |= !adds_plainly(config, config.mixer_norms) || !adds_plainly(config, config.feed_forward_norms);
    parallel |= config.parallel;
    if (layer.learned_residual)
      around =
          std::max(around, LearnedResidual::workspace_width(config_.hidden_size, config.learned_residual));
  }
  const std::int64_t tokens = max_batched_tokens_, chunk = workspace_.chunk_rows;
  const std::int64_t rows = std::min(chunk, kLogitChunk), hidden = config_.hidden_size;
  Buffer exchanged, streams_workspace;
  struct Part {
    Buffer* buffer;
    std::int64_t count, stride = 0;
  };
  const Part parts[] = {
      {&residual_, tokens * hidden, hidden},
      {&workspace_.projected, tokens * projected},
      {&workspace_.mixed, tokens * mixed},
      {&normed_, chunk * std::max<std::int64_t>(hidden, config_.embedding_size), hidden},
      {&branch_, branches ? chunk * hidden : 0, hidden},
      {&before_, parallel ? chunk * hidden : 0, hidden},
      {&embedded_, weights_.layer_inputs ? tokens * hidden : 0, hidden},
      {&input_workspace_, weights_.layer_inputs ? chunk * weights_.layer_inputs->workspace_width() : 0},
      {&around_, chunk * around},
      {&streams_workspace, weights_.streams ? weights_.streams->workspace_size(tokens, chunk) : 0},
      {&workspace_.inner, chunk * inner},
      {&workspace_.seen, chunk * seen},
      {&exchanged, RankExchange::workspace_for(shard_, chunk, whole, made_whole, hidden)},
      {&own_logits_, shard_.size > 1 ? rows * shard_.own_vocab().count : 0, shard_.own_vocab().count},
      {&gathered_,
       shard_.size > 1 && shard_.rank == 0 && !on_device(context_) ? rows * config_.vocab_size : 0},
  };
  std::int64_t total = 0;
  for (const Part& part : parts) total += padded(part.count);
  PAGODA_ASSIGN_OR_RETURN(memory_, PlacedMemory::reserve(context_, total, "activations"));
  Buffer next = {.data = memory_.data()};
  for (const Part& part : parts) {
    *part.buffer = next.with_stride(part.stride);
    next = next.at(0, padded(part.count));
  }
  exchange_ = RankExchange(parallel_, shard_, exchanged);
  if (weights_.streams) weights_.streams->place(streams_workspace, tokens, chunk);
  return ok_status();
}

// Returns x, normalised when a matrix reads it.
LinearInput DecoderModel::normalized(const NormConfig& config, const PlacedNorm& norm,
                                     const Buffer& x) const {
  LinearInput input = LinearInput::rows(x);
  input.op = config.kind == NormKind::rms ? LinearInput::Op::rms_norm : LinearInput::Op::layer_norm;
  input.weight = norm.weight.data();
  input.bias = norm.bias.data();
  input.eps = config.eps;
  return input;
}

void DecoderModel::take_adapters(std::span<const AdapterFactors* const> of_rows) {
  adapters_.assign(of_rows.begin(), of_rows.end());
  workspace_.adapters = adapters_.empty() ? nullptr : adapters_.data();
}

LinearInput DecoderModel::input_of(const LayerConfig& layer, const NormPlaces& places,
                                   const NormsAround& norms, Rows rows) const {
  const Buffer x = residual_.at(rows.first);
  LinearInput input = places.input ? normalized(layer.norm, norms.input, x) : LinearInput::rows(x);
  input.adapters = workspace_.adapters_from(rows.first);
  return input;
}

void DecoderModel::normalize(const NormConfig& config, const PlacedNorm& norm, const Buffer& x,
                             std::int64_t count, const Buffer& out) const {
  if (config.kind == NormKind::rms) {
    rms_norm(context_, x, count, config_.hidden_size, norm.weight.data(), config.eps, out);
  } else {
    layer_norm(context_, x, count, config_.hidden_size, norm.weight.data(), norm.bias.data(), config.eps,
               out);
  }
}

// After the last layer's mixer only rows that give logits are needed: moves them to the front.
void DecoderModel::gather_output_rows(std::span<const std::int32_t> rows, std::int64_t mixed_width) {
  gather_rows(context_, rows, config_.hidden_size, residual_);
  gather_rows(context_, rows, mixed_width, workspace_.mixed.with_stride(mixed_width));
  if (weights_.streams) weights_.streams->gather(context_, rows);
  if (workspace_.adapters != nullptr) {
    std::vector<const AdapterFactors*> of_rows;
    for (const std::int32_t row : rows) of_rows.push_back(adapters_[static_cast<std::size_t>(row)]);
    take_adapters(of_rows);
  }
  if (!weights_.layer_inputs) return;
  gather_rows(context_, rows, config_.hidden_size, embedded_);
  std::vector<std::int32_t> ids;
  for (const std::int32_t row : rows) ids.push_back(row_ids_[static_cast<std::size_t>(row)]);
  row_ids_ = std::move(ids);
}

// x = sum(x + scale * branch(sublayer)). `sublayer` is passed the output buffer and whether to add to it.
template <class Sublayer>
Status DecoderModel::add_sublayer(const LayerConfig& layer, const NormPlaces& places,
                                  const NormsAround& norms, Rows rows, const Sublayer& sublayer) {
  const Buffer x = residual_.at(rows.first);
  if (adds_plainly(layer, places)) {
    PAGODA_RETURN_IF_ERROR(sublayer(x, true));
  } else {
    PAGODA_RETURN_IF_ERROR(sublayer(branch_, false));
    NormConfig of_branch = layer.norm;
    if (layer.branch_norm_eps > 0) of_branch.eps = layer.branch_norm_eps;
    if (places.branch) normalize(of_branch, norms.branch, branch_, rows.count, branch_);
    add_rows(context_, hidden_rows(rows.count), layer.residual_scale, branch_, x);
  }
  if (places.sum) normalize(layer.norm, norms.sum, x, rows.count, x);
  return ok_status();
}

// Applies the operations after a layer's sublayers.
void DecoderModel::finish_layer(std::size_t index, Rows rows) {
  const Buffer x = residual_.at(rows.first);
  ResidualStreams* const streams = weights_.streams ? &*weights_.streams : nullptr;
  if (streams != nullptr) streams->correct(context_, index, rows.first, rows.count, x);
  if (weights_.layer_inputs) {
    const Buffer reads = streams != nullptr ? streams->scaled(context_, index, rows.count, x) : x;
    const auto ids = std::span(row_ids_).subspan(static_cast<std::size_t>(rows.first),
                                                 static_cast<std::size_t>(rows.count));
    const Buffer given = weights_.layer_inputs->make(context_, static_cast<std::int32_t>(index), ids,
                                                     embedded_.at(rows.first), reads, input_workspace_);
    if (streams != nullptr)
      streams->add_to_others(context_, rows.first, rows.count, given);
    else
      add_rows(context_, hidden_rows(rows.count), 1, given, x);
  }
  if (streams != nullptr && index + 1 == weights_.layers.size())
    streams->end(context_, rows.first, rows.count, x);
  const float scale = weights_.layers[index].output_scale;
  if (scale != 1) scale_rows(context_, hidden_rows(rows.count), scale, x);
}

// Prefetches the states that the next layer's mixer will read, during the matrix products before it, or
// during the last two of them.
void DecoderModel::read_next_layer_ahead(const DecoderBatch& batch, std::size_t next) {
  const auto rows = static_cast<std::int64_t>(batch.token_ids.size());
  const BringsAhead when = brings_ahead(context_, rows);
  if (when == BringsAhead::nothing) return;
  const DecoderLayer &layer = weights_.layers[next - 1], &after = weights_.layers[next];
  after.mixer->list_ahead(workspace_, batch, read_ahead_);
  const std::int64_t first = (layer.mixer_out + layer.feed_forward_in) * rows,
                     last = (layer.feed_forward_out + after.mixer_in) * rows;
  if (when == BringsAhead::late)
    read_ahead_.start(first, last);
  else
    read_ahead_.start(0, first + last);
  context_.read_ahead = read_ahead_.pieces.empty() ? nullptr : &read_ahead_;
}

void DecoderModel::prepare(const DecoderBatch& batch) {
  for (RopeTable& rope : ropes_) rope.prepare(context_, batch.positions, batch.rotations);
}

Status DecoderModel::forward(const DecoderBatch& batch) {
  const std::size_t tokens = batch.token_ids.size();
  CHECK(tokens > 0 && tokens <= static_cast<std::size_t>(max_batched_tokens_) &&
        batch.positions.size() == tokens);
  const Chunks all = chunks(tokens);
  Chunks left = all;
  prepare(batch);
  take_adapters(batch.adapters);
  PAGODA_RETURN_IF_ERROR(embed(batch));
  for (std::size_t index = 0; index < weights_.layers.size(); ++index) {
    const LayerConfig& config = config_.layers[index];
    const DecoderLayer& layer = weights_.layers[index];
    for (std::int64_t i = 0; i < all.count(); ++i) {
      const Rows rows = all[i];
      if (weights_.streams)
        weights_.streams->predict(context_, index, rows.first, rows.count, residual_.at(rows.first));
      layer.mixer->project_in(workspace_, batch, rows,
                              input_of(config, config.mixer_norms, layer.mixer_norms, rows));
    }
    context_.read_ahead = nullptr;
    const bool last = index + 1 == weights_.layers.size();
    workspace_.output_is_next = all.count() == 1 && (!last || are_all_rows(batch.output_rows, tokens));
    layer.mixer->mix(workspace_, batch);
    if (last) {
      gather_output_rows(batch.output_rows, layer.mixer->mixed_width());
      left = chunks(batch.output_rows.size());
    } else {
      read_next_layer_ahead(batch, index + 1);
    }
    for (std::int64_t i = 0; i < left.count(); ++i) {
      const Rows rows = left[i];
      const Buffer x = residual_.at(rows.first);
      LinearInput input = input_of(config, config.feed_forward_norms, layer.feed_forward_norms, rows);
      if (config.parallel) {
        if (config.feed_forward_norms.input)
          normalize(config.norm, layer.feed_forward_norms.input, x, rows.count, before_);
        else
          copy_rows(context_, hidden_rows(rows.count), x, before_);
        input = LinearInput::rows(before_);
        input.adapters = workspace_.adapters_from(rows.first);
      }
      if (layer.learned_residual)
        layer.learned_residual->make(context_, x, layer.mixer_norms.input.weight, rows.count, around_);
      layer.feed_forward->look(workspace_, LinearInput::rows(x), rows.count);
      PAGODA_RETURN_IF_ERROR(add_sublayer(config, config.mixer_norms, layer.mixer_norms, rows,
                                          [&](const Buffer& y, bool accumulate) {
                                            return layer.mixer->project_out(workspace_, rows, accumulate, y);
                                          }));
      if (layer.learned_residual) layer.learned_residual->join(context_, around_, rows.count, x);
      PAGODA_RETURN_IF_ERROR(add_sublayer(config, config.feed_forward_norms, layer.feed_forward_norms, rows,
                                          [&](const Buffer& y, bool accumulate) {
                                            return layer.feed_forward->forward(workspace_, input, rows.count,
                                                                               accumulate, y);
                                          }));
      finish_layer(index, rows);
    }
  }
  return ok_status();
}

// Each rank has the logits of its tokens; rank 0 assembles the rows.
Status DecoderModel::gather_logits(const LinearInput& input, std::int64_t count, const Buffer& out) {
  linear(context_, weights_.head, input, count, own_logits_);
  return exchange_.bring_to_first(context_, shard_.vocab, count, own_logits_, gathered_, out);
}

// The head's input: rows of the last layer's output, normalised, projected.
LinearInput DecoderModel::head_input(std::int64_t first, std::int64_t count) {
  const Buffer x = residual_.at(first);
  LinearInput input =
      config_.final_norm ? normalized(*config_.final_norm, weights_.final_norm, x) : LinearInput::rows(x);
  if (weights_.project_out) {
    const Buffer projected = normed_.with_stride(config_.embedding_size);
    linear(context_, *weights_.project_out, input, count, projected);
    input = LinearInput::rows(projected);
  }
  input.adapters = workspace_.adapters_from(first);
  return input;
}

void DecoderModel::hidden(std::int64_t first, std::int64_t count, const Buffer& out) const {
  if (config_.final_norm)
    normalize(*config_.final_norm, weights_.final_norm, residual_.at(first), count, out);
  else
    copy_rows(context_, hidden_rows(count), residual_.at(first), out);
}

void DecoderModel::largest_logits(std::span<LogitMax> largest) {
  CHECK(shard_.size == 1 && config_.logit_softcap == 0);
  const Chunks all = chunks(largest.size());
  for (std::int64_t i = 0; i < all.count(); ++i) {
    const Rows rows = all[i];
    linear_max(context_, weights_.head, head_input(rows.first, rows.count),
               largest.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count)));
  }
}

Status DecoderModel::logits(std::int64_t first, std::int64_t count, Buffer out) {
  const std::int64_t chunk =
      shard_.size == 1 ? workspace_.chunk_rows : std::min(workspace_.chunk_rows, kLogitChunk);
  for (; count > 0; first += chunk, count -= chunk) {
    const std::int64_t rows = std::min(chunk, count);
    const LinearInput input = head_input(first, rows);
    if (shard_.size == 1)
      linear(context_, weights_.head, input, rows, out, {.read_late = true});
    else
      PAGODA_RETURN_IF_ERROR(gather_logits(input, rows, out));
    if (config_.logit_softcap > 0 && shard_.rank == 0)
      cap_rows(context_, {rows, config_.vocab_size}, config_.logit_softcap, out);
    out = out.at(rows);
  }
  return ok_status();
}

}  // namespace pagoda
