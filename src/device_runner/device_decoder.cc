#include "device_runner/device_decoder.h"

#include <algorithm>
#include <cstring>

#include "device_runner/device_support.h"
#include "models/decoder.h"
#include "models/rope_table.h"

namespace pagoda::device_runner {
namespace {

using device::Element;

std::int64_t element_bytes(Element element) { return element == Element::f32 ? 4 : 2; }

// Room for what splits give: more rows are computed in several goes.
constexpr std::int64_t kPartialFloats = std::int64_t{8} << 20;

const AttentionConfig& attention_of(const DecoderConfig& config, std::size_t index) {
  return *config.layers[index].attention();
}

}  // namespace

Result<std::unique_ptr<DeviceDecoder>> DeviceDecoder::load(device::Device& device, device::StreamId stream,
                                                           const ModelSource& source,
                                                           const Options& options) {
  std::unique_ptr<DeviceDecoder> decoder(new DeviceDecoder(device, stream, options));
  const ModelConfig& written = source.config();
  auto config = describe_decoder(written);
  if (!config) return config.error();
  const std::int32_t max_context =
      options.max_context > 0 ? std::min(options.max_context, config->max_positions) : config->max_positions;
  PAGODA_RETURN_IF_ERROR(check_support(*config, max_context).annotate(written.architecture));
  auto architecture = find_architecture(written.architecture);
  if (!architecture) return architecture.error();
  WeightNames names = (*architecture)->names(source.format());
  if (!names.rope_factors_short.empty()) names.rope_factors = names.rope_factors_short;
  // A GGUF file says that its head is tied by not having one.
  if (source.format() == ModelFormat::gguf)
    config->tied_head = source.find(names.head + ".weight") == nullptr;
  auto weights = load_device_weights(device, stream, source, names, *config, options.weights);
  if (!weights) return weights.error();
  decoder->config_ = *config;
  decoder->weights_ = *std::move(weights);
  decoder->max_context_ = max_context;
  PAGODA_RETURN_IF_ERROR(decoder->reserve(stream));
  return decoder;
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
  std::int64_t qkv = 0, mixed = 0, inner = 0, partial = 0;
  for (std::size_t i = 0; i < config_.layers.size(); ++i) {
    const AttentionConfig& attention = attention_of(config_, i);
    qkv = std::max<std::int64_t>(qkv, attention.qkv_size());
    mixed = std::max<std::int64_t>(mixed, attention.query_size());
    inner = std::max<std::int64_t>(inner, config_.layers[i].dense()->intermediate_size);
    const std::int64_t splits = (max_context_ + device::kSplitTokens - 1) / device::kSplitTokens;
    partial = std::max(partial, std::int64_t{attention.num_heads} * splits * (2 + attention.head_size));
  }
  const std::int64_t tokens = options_.max_batched_tokens, hidden = config_.hidden_size;
  PAGODA_RETURN_IF_ERROR(room(residual_, tokens * hidden, "residual stream"));
  PAGODA_RETURN_IF_ERROR(room(normed_, tokens * hidden, "normed rows"));
  PAGODA_RETURN_IF_ERROR(room(output_, tokens * hidden, "output rows"));
  PAGODA_RETURN_IF_ERROR(room(qkv_, tokens * qkv, "queries, keys and values"));
  PAGODA_RETURN_IF_ERROR(room(mixed_, tokens * mixed, "attention's output"));
  PAGODA_RETURN_IF_ERROR(room(gate_up_, tokens * 2 * inner, "gate and up"));
  PAGODA_RETURN_IF_ERROR(room(inner_, tokens * inner, "inner features"));
  const std::int64_t few = std::max(partial, std::min(kPartialFloats, partial * options_.max_num_seqs));
  PAGODA_RETURN_IF_ERROR(room(partial_, few, "parts of attention"));
  return fill_turns(stream);
}

Status DeviceDecoder::fill_turns(device::StreamId stream) {
  const KernelContext context = {.backend = Backend::reference};
  for (std::size_t i = 0; i < config_.ropes.size(); ++i) {
    const std::span<const float> factors = weights_.rope_factors;
    auto table =
        RopeTable::create(config_.ropes[i], i == 0 ? factors : std::span<const float>(), max_context_);
    if (!table) return table.error();
    const std::int64_t count = std::int64_t{max_context_} * config_.ropes[i].rotary_size;
    PAGODA_RETURN_IF_ERROR(room(turns_.emplace_back(), count, "rotations"));
    auto staged = device::PinnedArray<float>::create(device_, count);
    if (!staged) return staged.error();
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    std::memcpy(staged->data(), table->rows(context, max_context_), bytes);
    PAGODA_RETURN_IF_ERROR(device_.copy_in(stream, turns_.back().bytes(), staged->bytes(), bytes));
    PAGODA_RETURN_IF_ERROR(device_.synchronize(stream));
  }
  return ok_status();
}

std::int64_t DeviceDecoder::block_bytes() const {
  const AttentionConfig& attention = attention_of(config_, 0);
  return 2 * std::int64_t{attention.kv_size()} * options_.block_size * config_.num_layers() *
         element_bytes(options_.cache);
}

device::CacheArgs DeviceDecoder::cache_of_layer(std::size_t index, std::byte* cache) const {
  const AttentionConfig& attention = attention_of(config_, index);
  return {.cache = cache,
          .block_elements = block_bytes() / element_bytes(options_.cache),
          .layer_offset =
              2 * std::int64_t{attention.kv_size()} * options_.block_size * static_cast<std::int64_t>(index),
          .block_size = options_.block_size,
          .num_kv_heads = attention.num_kv_heads,
          .head_size = attention.head_size};
}

Status DeviceDecoder::norm(const float* x, const device::DeviceArray<float>& weight, const NormConfig& config,
                           std::int64_t rows, float* out) {
  return launches_.rms_norm(
      {.x = x, .weight = weight.data(), .out = out, .width = config_.hidden_size, .eps = config.eps}, rows);
}

Status DeviceDecoder::multiply(const DeviceMatrix& matrix, const float* x, std::int64_t rows, float* y,
                               bool accumulate) {
  return launches_.linear(weights_.element, {.x = x,
                                             .weight = matrix.weight.data(),
                                             .bias = matrix.bias.data(),
                                             .y = y,
                                             .rows = static_cast<std::int32_t>(rows),
                                             .n = matrix.n,
                                             .k = matrix.k,
                                             .accumulate = accumulate ? 1 : 0});
}

Status DeviceDecoder::forward(const DeviceBatch& batch, std::byte* cache) {
  PAGODA_RETURN_IF_ERROR(launches_.embedding(weights_.element,
                                             {.table = weights_.embedding.weight.data(),
                                              .ids = batch.ids,
                                              .out = residual_.data(),
                                              .width = config_.hidden_size,
                                              .scale = config_.embedding_scale},
                                             batch.rows));
  for (std::size_t index = 0; index < weights_.layers.size(); ++index)
    PAGODA_RETURN_IF_ERROR(layer(batch, index, cache));
  num_output_rows_ = batch.num_output_rows;
  // The norm needs each row once: into normed_ those that are asked for, into output_ their norms.
  PAGODA_RETURN_IF_ERROR(launches_.gather_rows(
      {.x = residual_.data(), .rows = batch.output_rows, .out = normed_.data(), .width = config_.hidden_size},
      batch.num_output_rows));
  return norm(normed_.data(), weights_.final_norm, *config_.final_norm, batch.num_output_rows,
              output_.data());
}

Status DeviceDecoder::layer(const DeviceBatch& batch, std::size_t index, std::byte* cache) {
  const LayerConfig& config = config_.layers[index];
  const AttentionConfig& attention = *config.attention();
  const DeviceLayer& weights = weights_.layers[index];
  const device::CacheArgs cache_args = cache_of_layer(index, cache);
  const bool turns = attention.rope != kNoRope;
  const auto rope = static_cast<std::size_t>(turns ? attention.rope : 0);

  PAGODA_RETURN_IF_ERROR(
      norm(residual_.data(), weights.attention_norm, config.norm, batch.rows, normed_.data()));
  PAGODA_RETURN_IF_ERROR(multiply(weights.query_key_value, normed_.data(), batch.rows, qkv_.data()));
  PAGODA_RETURN_IF_ERROR(
      launches_.rope_and_write(options_.cache,
                               {.cache = cache_args,
                                .qkv = qkv_.data(),
                                .positions = batch.positions,
                                .blocks = batch.blocks,
                                .cos_sin = turns ? turns_[rope].data() : nullptr,
                                .query_norm = weights.query_norm.data(),
                                .key_norm = weights.key_norm.data(),
                                .norm_eps = config.norm.eps,
                                .num_query_heads = attention.num_heads,
                                .rotary_size = turns ? config_.ropes[rope].rotary_size : 0},
                               batch.rows));
  PAGODA_RETURN_IF_ERROR(attend(batch, {.cache = cache_args,
                                        .qkv = qkv_.data(),
                                        .positions = batch.positions,
                                        .sequences = batch.sequences,
                                        .block_tables = batch.block_tables,
                                        .partial = partial_.data(),
                                        .out = mixed_.data(),
                                        .num_query_heads = attention.num_heads,
                                        .table_width = batch.table_width,
                                        .splits = batch.splits,
                                        .window = attention.sliding_window,
                                        .scale = attention.scale,
                                        .softcap = attention.softcap}));
  PAGODA_RETURN_IF_ERROR(multiply(weights.output, mixed_.data(), batch.rows, residual_.data(), true));

  PAGODA_RETURN_IF_ERROR(norm(residual_.data(), weights.mlp_norm, config.norm, batch.rows, normed_.data()));
  PAGODA_RETURN_IF_ERROR(multiply(weights.gate_up, normed_.data(), batch.rows, gate_up_.data()));
  PAGODA_RETURN_IF_ERROR(launches_.silu_mul(
      {.in = gate_up_.data(), .out = inner_.data(), .width = config.dense()->intermediate_size}, batch.rows));
  return multiply(weights.down, inner_.data(), batch.rows, residual_.data(), true);
}

Status DeviceDecoder::attend(const DeviceBatch& batch, device::AttentionArgs args) {
  const std::int64_t at_once = std::max<std::int64_t>(
      1, args.splits > 0 ? partial_.count() / device::KernelLaunches::partial_floats(args, 1) : 1);
  for (std::int64_t first = 0; first < batch.num_split_rows; first += at_once) {
    args.rows = batch.split_rows + first;
    PAGODA_RETURN_IF_ERROR(
        launches_.attend_splits(options_.cache, args, std::min(at_once, batch.num_split_rows - first)));
  }
  args.rows = batch.whole_rows;
  return launches_.attend_rows(options_.cache, args, batch.num_whole_rows);
}

Status DeviceDecoder::logits(std::int64_t first, std::int64_t count, float* out) {
  CHECK(first >= 0 && count >= 0 && first + count <= num_output_rows_);
  return multiply(weights_.head(), output_.data() + first * config_.hidden_size, count, out);
}

}  // namespace pagoda::device_runner
