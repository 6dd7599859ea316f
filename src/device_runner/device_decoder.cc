#include "device_runner/device_decoder.h"

#include <algorithm>
#include <cstring>

#include "device_runner/device_support.h"
#include "models/decoder.h"
#include "models/rope_table.h"

namespace pagoda::device_runner {
namespace {

using device::Element;

std::int64_t element_bytes(Element element) {
  return element == Element::f32 ? 4 : element == Element::bf16 ? 2 : 1;
}

// Room for what splits give: more rows are computed in several goes.
constexpr std::int64_t kPartialFloats = std::int64_t{8} << 20;

const AttentionConfig& attention_of(const DecoderConfig& config, std::size_t index) {
  return *config.layers[index].attention();
}

// Whether what a half makes of x is added as it comes.
bool adds_plainly(const LayerConfig& layer, const NormPlaces& places) {
  return !places.branch && layer.residual_scale == 1;
}

// Features of a row between the matrices, all chosen experts' together.
struct FeedForwardWidths {
  std::int64_t inner = 0, experts = 0, choices = 0;
  bool shared = false;  // and its rows take a share of it
};

FeedForwardWidths widths_of(const LayerConfig& layer) {
  const MixtureConfig* const mixture = layer.mixture();
  if (mixture == nullptr) return {.inner = layer.dense()->intermediate_size};
  const std::int64_t choices = mixture->routing.per_token;
  return {.inner = std::max<std::int64_t>(choices * mixture->expert.intermediate_size,
                                          mixture->shared_intermediate_size),
          .experts = mixture->routing.num_experts,
          .choices = choices,
          .shared = mixture->shared_gate};
}

}  // namespace

Result<std::unique_ptr<DeviceDecoder>> DeviceDecoder::load(device::Device& device, device::StreamId stream,
                                                           const ModelSource& source, const ModelInfo& model,
                                                           const Options& options) {
  std::unique_ptr<DeviceDecoder> decoder(new DeviceDecoder(device, stream, options));
  DecoderConfig config = model.decoder;
  const std::int32_t max_context =
      options.max_context > 0 ? std::min(options.max_context, config.max_positions) : config.max_positions;
  PAGODA_RETURN_IF_ERROR(check_support(config, max_context).annotate(model.architecture));
  WeightNames names = model.names(source.format());
  if (source.find(names.rope_factors_short) != nullptr) names.rope_factors = names.rope_factors_short;
  config.tied_head = head_is_tied(source, names, config);
  auto weights = load_device_weights(
      device, stream, source, names, config, options.weights,
      options.products == MatrixProducts::library ? QuantizedRows::widen : QuantizedRows::keep);
  if (!weights) return weights.error();
  decoder->config_ = config;
  decoder->weights_ = *std::move(weights);
  decoder->max_context_ = max_context;
  PAGODA_RETURN_IF_ERROR(decoder->choose_attention());
  PAGODA_RETURN_IF_ERROR(decoder->reserve(stream));
  return decoder;
}

// For decode and prefill alike: a token's bits do not depend on which of them computes it.
Status DeviceDecoder::choose_attention() {
  const AttentionConfig& attention = attention_of(config_, 0);  // all layers have such heads
  const bool can = options_.cache == Element::bf16 &&
                   device::KernelLaunches::supports_tiles(attention.num_heads, attention.num_kv_heads,
                                                          attention.head_size);
  if (options_.attention == AttentionKernels::tiles && !can)
    return unimplemented(
        "--device-attention tiles needs keys and values in bfloat16, and heads of a multiple of 8 up to "
        "256");
  if (can && options_.attention != AttentionKernels::plain)
    rows_of_tile_ = device::KernelLaunches::rows_of_tile(attention.num_heads, attention.num_kv_heads,
                                                         attention.head_size);
  return ok_status();
}

template <class T>
Status DeviceDecoder::room(device::DeviceArray<T>& array, std::int64_t count, std::string_view name) {
  auto made = device::DeviceArray<T>::create(device_, count, name);
  if (!made) return made.error();
  array = *std::move(made);
  activation_bytes_ += array.size_bytes();
  return ok_status();
}

Status DeviceDecoder::reserve(device::StreamId stream) {
  std::int64_t qkv = 0, mixed = 0, entered = 0, inner = 0, partial = 0;
  std::int64_t experts = 0, choices = 0;
  bool branches = false, parallel = false, shared = false;
  for (std::size_t i = 0; i < config_.layers.size(); ++i) {
    const AttentionConfig& attention = attention_of(config_, i);
    qkv = std::max<std::int64_t>(qkv, attention.qkv_size());
    mixed = std::max<std::int64_t>(mixed, attention.query_size());
    const LayerConfig& layer = config_.layers[i];
    const FeedForwardWidths widths = widths_of(layer);
    inner = std::max(inner, widths.inner);
    entered = std::max(entered, 2 * widths.inner);
    experts = std::max(experts, widths.experts);
    choices = std::max(choices, widths.choices);
    shared |= widths.shared;
    branches |= !adds_plainly(layer, layer.mixer_norms) || !adds_plainly(layer, layer.feed_forward_norms);
    parallel |= layer.parallel;
    const std::int64_t splits = (max_context_ + device::kSplitTokens - 1) / device::kSplitTokens;
    partial = std::max(partial, std::int64_t{attention.num_heads} * splits * (2 + attention.head_size));
  }
  if (rounds()) {
    const std::int64_t widest = std::max({mixed, inner, std::int64_t{config_.hidden_size}});
    PAGODA_RETURN_IF_ERROR(room(rounded_, options_.max_batched_tokens * widest, "rounded rows"));
  }
  const std::int64_t tokens = options_.max_batched_tokens, hidden = config_.hidden_size;
  PAGODA_RETURN_IF_ERROR(room(residual_, tokens * hidden, "residual stream"));
  PAGODA_RETURN_IF_ERROR(room(normed_, tokens * hidden, "normed rows"));
  PAGODA_RETURN_IF_ERROR(room(output_, tokens * hidden, "output rows"));
  PAGODA_RETURN_IF_ERROR(room(qkv_, tokens * qkv, "queries, keys and values"));
  PAGODA_RETURN_IF_ERROR(room(mixed_, tokens * mixed, "attention's output"));
  PAGODA_RETURN_IF_ERROR(room(gate_up_, tokens * entered, "gate and up"));
  PAGODA_RETURN_IF_ERROR(room(inner_, tokens * inner, "inner features"));
  PAGODA_RETURN_IF_ERROR(room(branch_, branches ? tokens * hidden : 0, "branches"));
  PAGODA_RETURN_IF_ERROR(room(router_logits_, tokens * experts, "logits of experts"));
  PAGODA_RETURN_IF_ERROR(room(choice_weights_, tokens * choices, "weights of experts"));
  PAGODA_RETURN_IF_ERROR(room(expert_rows_, tokens * choices * hidden, "what experts make"));
  PAGODA_RETURN_IF_ERROR(room(shared_rows_, shared ? tokens * hidden : 0, "what shared experts make"));
  PAGODA_RETURN_IF_ERROR(room(shares_, shared ? tokens : 0, "shares of shared experts"));
  PAGODA_RETURN_IF_ERROR(room(chosen_, tokens * choices, "chosen experts"));
  PAGODA_RETURN_IF_ERROR(room(slots_, tokens * choices, "rows by expert"));
  PAGODA_RETURN_IF_ERROR(room(
      tiles_,
      device::most_tiles(static_cast<std::int32_t>(tokens * choices), static_cast<std::int32_t>(experts)),
      "tiles of experts' rows"));
  PAGODA_RETURN_IF_ERROR(room(before_, parallel ? tokens * hidden : 0, "rows before a layer"));
  const std::int64_t few = std::max(partial, std::min(kPartialFloats, partial * options_.max_num_seqs));
  PAGODA_RETURN_IF_ERROR(room(partial_, few, "parts of attention"));
  return fill_cos_sin(stream);
}

Status DeviceDecoder::fill_cos_sin(device::StreamId stream) {
  const KernelContext context = {.backend = Backend::reference};
  for (std::size_t i = 0; i < config_.ropes.size(); ++i) {
    const std::span<const float> factors = weights_.rope_factors;
    auto table = RopeTable::create(context, config_.ropes[i], i == 0 ? factors : std::span<const float>(),
                                   max_context_);
    if (!table) return table.error();
    const std::int64_t count = std::int64_t{max_context_} * config_.ropes[i].rotary_size;
    PAGODA_RETURN_IF_ERROR(room(cos_sin_.emplace_back(), count, "rotations"));
    auto staged = device::PinnedArray<float>::create(device_, count);
    if (!staged) return staged.error();
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    std::memcpy(staged->data(), floats(table->rows(context, max_context_)), bytes);
    PAGODA_RETURN_IF_ERROR(device_.copy_in(stream, cos_sin_.back().bytes(), staged->bytes(), bytes));
    PAGODA_RETURN_IF_ERROR(device_.synchronize(stream));
  }
  return ok_status();
}

std::int64_t DeviceDecoder::block_bytes() const {
  const AttentionConfig& attention = attention_of(config_, 0);
  if (options_.cache == Element::i8) return static_cast<std::int64_t>(kv_layout().block_bytes());
  return 2 * std::int64_t{attention.kv_size()} * options_.block_size * config_.num_layers() *
         element_bytes(options_.cache);
}

KvLayout DeviceDecoder::kv_layout() const {
  const AttentionConfig& attention = attention_of(config_, 0);
  const Element cache = options_.cache;
  return {.dtype = cache == Element::f32    ? DType::f32
                   : cache == Element::bf16 ? DType::bf16
                                            : DType::i8,
          .num_layers = config_.num_layers(),
          .num_kv_heads = attention.num_kv_heads,
          .head_size = attention.head_size,
          .block_size = options_.block_size};
}

device::CacheArgs DeviceDecoder::cache_of_layer(std::size_t index, const DeviceCache& cache) const {
  const AttentionConfig& attention = attention_of(config_, index);
  const std::int64_t element = element_bytes(options_.cache);
  return {.cache = cache.data,
          .block_elements = cache.block_stride / element,
          .layer_offset = cache.layer_stride / element * static_cast<std::int64_t>(index),
          .block_size = cache.block_size,
          .num_kv_heads = attention.num_kv_heads,
          .head_size = attention.head_size};
}

Status DeviceDecoder::norm(const float* x, const DeviceNorm& weights, const NormConfig& config,
                           std::int64_t rows, float* out) {
  const device::NormArgs args = {.x = x,
                                 .weight = weights.weight.data(),
                                 .out = out,
                                 .width = config_.hidden_size,
                                 .eps = config.eps,
                                 .bias = weights.bias.data()};
  return config.kind == NormKind::rms ? launches_.rms_norm(args, rows) : launches_.layer_norm(args, rows);
}

Status DeviceDecoder::multiply(const DeviceMatrix& matrix, const float* x, std::int64_t rows, float* y,
                               bool accumulate, std::int32_t stride) {
  if (rows == 0) return ok_status();
  CHECK(!rounds() || matrix.element == Element::f32 || rows * matrix.k <= rounded_.count());
  if (options_.products == MatrixProducts::library && matrix.element == Element::bf16) {
    CHECK(stride == 0 || stride == matrix.n);
    PAGODA_RETURN_IF_ERROR(launches_.round_rows({.x = x, .out = rounded_.data(), .width = matrix.k}, rows));
    return device_.multiply(stream_, {.x = rounded_.data(),
                                      .weight = matrix.weight.data(),
                                      .bias = matrix.bias.data(),
                                      .y = y,
                                      .rows = static_cast<std::int32_t>(rows),
                                      .n = matrix.n,
                                      .k = matrix.k,
                                      .accumulate = accumulate ? 1 : 0});
  }
  const device::LinearArgs args = {.x = x,
                                   .weight = matrix.weight.data(),
                                   .bias = matrix.bias.data(),
                                   .y = y,
                                   .rows = static_cast<std::int32_t>(rows),
                                   .n = matrix.n,
                                   .k = matrix.k,
                                   .accumulate = accumulate ? 1 : 0,
                                   .rounded = rounded_.data(),
                                   .stride = stride};
  // By the matrix alone: not by rows, which its bits would then depend on.
  const bool tiles = rounds() && device::KernelLaunches::supports_product_tiles(matrix.element, matrix.k);
  return tiles ? launches_.linear_tiles(matrix.element, args) : launches_.linear(matrix.element, args);
}

Status DeviceDecoder::multiply_pairs(const DeviceMatrix& matrix, device::GroupedLinearArgs args) {
  args.weight = matrix.weight.data();
  args.bias = matrix.bias.data();
  args.n = matrix.n;
  args.k = matrix.k;
  const bool tiles = rounds() && device::KernelLaunches::supports_product_tiles(matrix.element, matrix.k);
  return tiles ? launches_.grouped_tiles(matrix.element, args)
               : launches_.grouped_linear(matrix.element, args);
}

Status DeviceDecoder::embed(const DeviceBatch& batch) {
  PAGODA_RETURN_IF_ERROR(launches_.embedding(weights_.embedding.element,
                                             {.table = weights_.embedding.weight.data(),
                                              .ids = batch.ids,
                                              .out = residual_.data(),
                                              .width = config_.hidden_size,
                                              .scale = weights_.embedding_scale,
                                              .rounded = options_.weights == Element::bf16 ? 1 : 0},
                                             batch.rows));
  if (config_.learned_positions)
    PAGODA_RETURN_IF_ERROR(launches_.embedding(weights_.positions.element,
                                               {.table = weights_.positions.weight.data(),
                                                .ids = batch.positions,
                                                .out = residual_.data(),
                                                .width = config_.hidden_size,
                                                .first_row = config_.position_offset,
                                                .accumulate = 1},
                                               batch.rows));
  if (!config_.embedding_norm) return ok_status();
  return norm(residual_.data(), weights_.embedding_norm, *config_.embedding_norm, batch.rows,
              residual_.data());
}

Status DeviceDecoder::forward(const DeviceBatch& batch, const DeviceCache& cache) {
  PAGODA_RETURN_IF_ERROR(embed(batch));
  for (std::size_t index = 0; index < weights_.layers.size(); ++index)
    PAGODA_RETURN_IF_ERROR(layer(batch, index, cache));
  num_output_rows_ = batch.num_output_rows;
  PAGODA_RETURN_IF_ERROR(launches_.gather_rows(
      {.x = residual_.data(), .rows = batch.output_rows, .out = output_.data(), .width = config_.hidden_size},
      batch.num_output_rows));
  if (!config_.final_norm) return ok_status();
  return norm(output_.data(), weights_.final_norm, *config_.final_norm, batch.num_output_rows,
              output_.data());
}

template <class Half>
Status DeviceDecoder::add_sublayer(const LayerConfig& layer, const NormPlaces& places,
                                   const DeviceNorms& norms, std::int64_t rows, const Half& half) {
  float* const x = residual_.data();
  if (adds_plainly(layer, places)) {
    PAGODA_RETURN_IF_ERROR(half(x, true));
  } else {
    PAGODA_RETURN_IF_ERROR(half(branch_.data(), false));
    if (places.branch)
      PAGODA_RETURN_IF_ERROR(norm(branch_.data(), norms.branch, layer.norm, rows, branch_.data()));
    PAGODA_RETURN_IF_ERROR(launches_.add_rows(
        {.x = branch_.data(), .y = x, .width = config_.hidden_size, .scale = layer.residual_scale}, rows));
  }
  return places.sum ? norm(x, norms.sum, layer.norm, rows, x) : ok_status();
}

Status DeviceDecoder::layer(const DeviceBatch& batch, std::size_t index, const DeviceCache& cache) {
  const LayerConfig& config = config_.layers[index];
  const DeviceLayer& weights = weights_.layers[index];
  const float* const x = residual_.data();
  // The input of a sublayer, which the other's sum does not change before it is read.
  const auto input = [&](const NormPlaces& places, const DeviceNorms& norms, float* room,
                         const float*& out) -> Status {
    out = places.input ? room : x;
    return places.input ? norm(x, norms.input, config.norm, batch.rows, room) : ok_status();
  };
  const float *mixed = nullptr, *fed = nullptr;
  PAGODA_RETURN_IF_ERROR(input(config.mixer_norms, weights.mixer_norms, normed_.data(), mixed));
  if (config.parallel)
    PAGODA_RETURN_IF_ERROR(input(config.feed_forward_norms, weights.feed_forward_norms, before_.data(), fed));
  PAGODA_RETURN_IF_ERROR(mix(batch, index, cache, mixed));
  PAGODA_RETURN_IF_ERROR(add_sublayer(
      config, config.mixer_norms, weights.mixer_norms, batch.rows, [&](float* y, bool accumulate) {
        return multiply(weights.output, mixed_.data(), batch.rows, y, accumulate);
      }));
  if (!config.parallel)
    PAGODA_RETURN_IF_ERROR(input(config.feed_forward_norms, weights.feed_forward_norms, normed_.data(), fed));
  return add_sublayer(config, config.feed_forward_norms, weights.feed_forward_norms, batch.rows,
                      [&](float* y, bool accumulate) {
                        if (weights.mixture)
                          return mixture(*weights.mixture, *config.mixture(), fed, batch.rows, y, accumulate);
                        return feed_forward(weights.dense, *config.dense(), fed, batch.rows, y, accumulate);
                      });
}

// The norm of all query heads together, and of all key heads; those of single heads go with the rotation.
Status DeviceDecoder::normalize_heads(const AttentionConfig& config, const NormConfig& norm,
                                      const DeviceLayer& layer, std::int64_t rows) {
  float* heads = qkv_.data();
  for (const auto& [weight, width] : {std::pair{layer.query_norm.data(), config.query_size()},
                                      std::pair{layer.key_norm.data(), config.kv_size()}}) {
    PAGODA_RETURN_IF_ERROR(launches_.rms_norm({.x = heads,
                                               .weight = weight,
                                               .out = heads,
                                               .width = width,
                                               .eps = norm.eps,
                                               .stride = config.qkv_size()},
                                              rows));
    heads += width;
  }
  return ok_status();
}

// Queries, keys and values of x, attended, into mixed_.
Status DeviceDecoder::mix(const DeviceBatch& batch, std::size_t index, const DeviceCache& cache,
                          const float* x) {
  const LayerConfig& config = config_.layers[index];
  const AttentionConfig& attention = *config.attention();
  const DeviceLayer& weights = weights_.layers[index];
  const device::CacheArgs cache_args = cache_of_layer(index, cache);
  const bool turns = attention.rope != kNoRope;
  const auto rope = static_cast<std::size_t>(turns ? attention.rope : 0);
  const bool whole = attention.query_key_norm == QueryKeyNorm::whole;
  const bool each = attention.query_key_norm == QueryKeyNorm::each_head;

  float* part_of_row = qkv_.data();
  for (const DeviceMatrix& part : weights.query_key_value) {
    PAGODA_RETURN_IF_ERROR(multiply(part, x, batch.rows, part_of_row, false, attention.qkv_size()));
    part_of_row += part.n;
  }
  if (whole) PAGODA_RETURN_IF_ERROR(normalize_heads(attention, config.norm, weights, batch.rows));
  PAGODA_RETURN_IF_ERROR(launches_.rope_and_write(options_.cache,
                                                  {.cache = cache_args,
                                                   .qkv = qkv_.data(),
                                                   .positions = batch.positions,
                                                   .blocks = batch.blocks,
                                                   .cos_sin = turns ? cos_sin_[rope].data() : nullptr,
                                                   .query_norm = whole ? nullptr : weights.query_norm.data(),
                                                   .key_norm = whole ? nullptr : weights.key_norm.data(),
                                                   .norm_eps = config.norm.eps,
                                                   .num_query_heads = attention.num_heads,
                                                   .rotary_size = turns ? config_.ropes[rope].rotary_size : 0,
                                                   .norm_stride = each ? attention.head_size : 0,
                                                   .centred = each ? 1 : 0,
                                                   .norm_behind = attention.norm_after_rope ? 1 : 0,
                                                   .query_temperature = attention.temperature_beta,
                                                   .temperature_offset = attention.temperature_offset,
                                                   .temperature_positions = attention.temperature_positions},
                                                  batch.rows));
  return attend(batch, {.cache = cache_args,
                        .qkv = qkv_.data(),
                        .positions = batch.positions,
                        .sequences = batch.sequences,
                        .block_tables = batch.block_tables,
                        .sinks = weights.sinks.data(),
                        .slopes = weights.slopes.data(),
                        .partial = partial_.data(),
                        .out = mixed_.data(),
                        .num_query_heads = attention.num_heads,
                        .table_width = batch.table_width,
                        .splits = batch.splits,
                        .all_splits = batch.all_splits,
                        .window = attention.sliding_window,
                        .chunks = attention.chunks ? 1 : 0,
                        .scale = attention.scale,
                        .softcap = attention.softcap});
}

Status DeviceDecoder::attend(const DeviceBatch& batch, device::AttentionArgs args) {
  using device::KernelLaunches;
  const bool walks = rows_of_tile_ > 0 && KernelLaunches::walks(args, batch.num_split_rows);
  const std::int64_t at_once =
      std::max<std::int64_t>(1, walks             ? batch.num_split_rows
                                : args.splits > 0 ? partial_.count() / KernelLaunches::partial_floats(args, 1)
                                                  : 1);
  for (std::int64_t first = 0; first < batch.num_split_rows; first += at_once) {
    args.rows = batch.split_rows + first;
    const std::int64_t rows = std::min(at_once, batch.num_split_rows - first);
    PAGODA_RETURN_IF_ERROR(rows_of_tile_ > 0 ? launches_.attend_tile_decode(args, rows)
                                             : launches_.attend_splits(options_.cache, args, rows));
  }
  args.rows = batch.whole_rows;
  args.tiles = batch.tiles;
  if (rows_of_tile_ > 0) return launches_.attend_tiles(args, batch.num_tiles);
  return launches_.attend_rows(options_.cache, args, batch.num_whole_rows);
}

Status DeviceDecoder::logits(std::int64_t first, std::int64_t count, float* out) {
  CHECK(first >= 0 && count >= 0 && first + count <= num_output_rows_);
  PAGODA_RETURN_IF_ERROR(multiply(weights_.head(), output_.data() + first * config_.hidden_size, count, out));
  if (config_.logit_softcap == 0) return ok_status();
  return launches_.softcap({.x = out, .width = config_.vocab_size, .cap = config_.logit_softcap}, count);
}

}  // namespace pagoda::device_runner
