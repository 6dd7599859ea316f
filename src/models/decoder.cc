#include "models/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "models/architecture.h"

namespace pagoda {
namespace {

// Rows that pass through the row-wise half of a layer together. Few keep their activations in the
// second-level cache; but each chunk reads the layer's weights again, so that layers too large for the
// last-level cache want many.
std::int64_t chunk_rows(const DecoderConfig& c, std::int32_t max_batched_tokens) {
  const std::int64_t weights = std::int64_t{c.hidden_size} * (c.qkv_size() + c.query_size()) +
                               std::int64_t{c.hidden_size} * c.intermediate_size * (c.gated_mlp ? 3 : 2);
  return std::min<std::int64_t>(max_batched_tokens, weights < 8'000'000 ? 64 : 256);
}

// Float counts of the buffers, each rounded up to whole cache lines.
struct BufferSizes {
  std::int64_t residual, qkv, attended, normed, mlp_in, mlp_hidden;

  BufferSizes(const DecoderConfig& config, std::int32_t tokens) {
    const auto padded = [](std::int64_t count) { return (count + 15) / 16 * 16; };
    const std::int64_t chunk = chunk_rows(config, tokens);
    residual = padded(std::int64_t{tokens} * config.hidden_size);
    qkv = padded(std::int64_t{tokens} * config.qkv_size());
    attended = padded(std::int64_t{tokens} * config.query_size());
    normed = padded(chunk * (config.hidden_size + config.embedding_size));
    mlp_in = padded(chunk * config.intermediate_size * (config.gated_mlp ? 2 : 1));
    mlp_hidden = config.gated_mlp ? padded(chunk * config.intermediate_size) : 0;
  }
  std::int64_t total() const { return residual + qkv + attended + normed + mlp_in + mlp_hidden; }
};

Status check_sizes(const DecoderConfig& c) {
  const auto wrong = [](std::string_view what) { return corrupt_data(concat("model config: ", what)); };
  for (const std::int32_t size : {c.vocab_size, c.hidden_size, c.embedding_size, c.intermediate_size,
                                  c.num_layers, c.num_heads, c.num_kv_heads, c.head_size, c.max_positions}) {
    if (size <= 0) return wrong("a size is missing or not positive");
    if (size > 1 << 28) return wrong("a size is absurdly large");
  }
  if (c.num_heads % c.num_kv_heads != 0) {
    return wrong(
        concat(c.num_heads, " query heads are not a multiple of ", c.num_kv_heads, " key-value heads"));
  }
  if (std::int64_t{c.num_heads} * c.head_size > 1 << 28) return wrong("a size is absurdly large");
  if (c.position == PositionKind::rope &&
      (c.rope.rotary_size <= 0 || c.rope.rotary_size % 2 != 0 || c.rope.rotary_size > c.head_size)) {
    return wrong(concat(c.rope.rotary_size, " rotated dimensions of a head of ", c.head_size));
  }
  return ok_status();
}

}  // namespace

Result<DecoderConfig> describe_decoder(const ModelConfig& config) {
  auto architecture = find_architecture(config.architecture);
  if (!architecture) return architecture.error();
  auto decoder = (*architecture)->describe(config);
  if (!decoder) return decoder.error();
  PAGODA_RETURN_IF_ERROR(check_sizes(*decoder));
  return decoder;
}

std::int64_t DecoderModel::activation_bytes(const DecoderConfig& config, std::int32_t max_batched_tokens) {
  return BufferSizes(config, max_batched_tokens).total() * static_cast<std::int64_t>(sizeof(float));
}

Result<std::unique_ptr<DecoderModel>> DecoderModel::load(const KernelContext& context,
                                                         const ModelSource& source, std::string_view dtype,
                                                         std::int32_t max_batched_tokens) {
  if (max_batched_tokens <= 0) return invalid_argument("max_num_batched_tokens must be positive");
  auto config = describe_decoder(source.config());
  if (!config) return config.error();
  auto architecture = find_architecture(source.config().architecture);
  if (!architecture) return architecture.error();
  const WeightNames names = (*architecture)->names(source.format());
  // A GGUF file says that its head is tied by not having one.
  if (source.format() == ModelFormat::gguf)
    config->tied_head = source.find(names.head + ".weight") == nullptr;

  std::unique_ptr<DecoderModel> decoder(new DecoderModel);
  decoder->context_ = context;
  decoder->config_ = *config;
  decoder->max_batched_tokens_ = max_batched_tokens;
  decoder->chunk_rows_ = chunk_rows(*config, max_batched_tokens);
  auto weights = load_decoder_weights(context, source, names, *config, dtype);
  if (!weights) return weights.error();
  decoder->weights_ = *std::move(weights);
  if (config->position == PositionKind::rope) {
    auto rope = RopeTable::create(config->rope, decoder->weights_.rope_factors, config->max_positions);
    if (!rope) return rope.error();
    decoder->rope_ = *std::move(rope);
  }

  auto memory = Memory::reserve(static_cast<std::size_t>(activation_bytes(*config, max_batched_tokens)));
  if (!memory) return memory.error();
  decoder->memory_ = *std::move(memory);
  const BufferSizes sizes(*config, max_batched_tokens);
  auto* next = decoder->memory_.as<float>();
  const auto take = [&](std::int64_t count) { return std::exchange(next, next + count); };
  decoder->residual_ = take(sizes.residual);
  decoder->qkv_ = take(sizes.qkv);
  decoder->attended_ = take(sizes.attended);
  decoder->normed_ = take(sizes.normed);
  decoder->mlp_in_ = take(sizes.mlp_in);
  decoder->mlp_hidden_ = take(sizes.mlp_hidden);
  return decoder;
}

void DecoderModel::normalize(const NormWeights& norm, const float* x, std::int64_t count, float* out) {
  if (config_.norm == NormKind::rms) {
    rms_norm(context_, x, count, config_.hidden_size, norm.weight.data(), config_.norm_eps, out);
  } else {
    layer_norm(context_, x, count, config_.hidden_size, norm.weight.data(),
               norm.bias.empty() ? nullptr : norm.bias.data(), config_.norm_eps, out);
  }
}

void DecoderModel::normalize_in_place(const NormWeights& norm, float* x, std::int64_t count) {
  normalize(norm, x, count, normed_);
  std::memcpy(x, normed_, static_cast<std::size_t>(count * config_.hidden_size) * sizeof(float));
}

void DecoderModel::embed(const DecoderBatch& batch) {
  const std::int64_t hidden = config_.hidden_size;
  const auto tokens = static_cast<std::int64_t>(batch.token_ids.size());
  if (config_.position == PositionKind::learned) {
    shifted_positions_.assign(batch.positions.begin(), batch.positions.end());
    for (std::int32_t& position : shifted_positions_) position += config_.position_offset;
  }
  for (std::int64_t first = 0; first < tokens; first += chunk_rows_) {
    const auto start = static_cast<std::size_t>(first);
    const auto count = static_cast<std::size_t>(std::min(chunk_rows_, tokens - first));
    float* x = residual_ + first * hidden;
    if (weights_.project_in) {
      embedding(context_, weights_.token_embedding, batch.token_ids.subspan(start, count), normed_);
      linear(context_, *weights_.project_in, normed_, static_cast<std::int64_t>(count), x);
    } else {
      embedding(context_, weights_.token_embedding, batch.token_ids.subspan(start, count), x);
    }
    if (config_.position == PositionKind::learned) {
      embedding(context_, weights_.position_embedding, std::span(shifted_positions_).subspan(start, count),
                normed_);
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(count) * hidden; ++i) x[i] += normed_[i];
    }
  }
}

// RMS norm of each query and key head in the fused rows, in place.
void DecoderModel::normalize_heads(const LayerWeights& layer, std::int64_t count) {
  const std::int32_t size = config_.head_size;
  const auto body = [&](std::int64_t row, int) {
    float* heads = qkv_ + row * config_.qkv_size();
    for (std::int32_t head = 0; head < config_.num_heads + config_.num_kv_heads; ++head, heads += size) {
      const float* weight = head < config_.num_heads ? layer.query_norm.data() : layer.key_norm.data();
      double sum = 0;
      for (std::int32_t i = 0; i < size; ++i) sum += static_cast<double>(heads[i]) * heads[i];
      const auto scale = static_cast<float>(1.0 / std::sqrt(sum / size + config_.norm_eps));
      for (std::int32_t i = 0; i < size; ++i) heads[i] = heads[i] * scale * weight[i];
    }
  };
  if (context_.pool != nullptr && count > 1) return context_.pool->parallel_for(count, body);
  for (std::int64_t row = 0; row < count; ++row) body(row, 0);
}

// residual -> query, key, value -> attended, for all rows of the batch.
void DecoderModel::attention(const DecoderBatch& batch, std::int32_t index) {
  const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(index)];
  const auto tokens = static_cast<std::int64_t>(batch.token_ids.size());
  const std::int64_t width = config_.qkv_size();
  for (std::int64_t first = 0; first < tokens; first += chunk_rows_) {
    const std::int64_t count = std::min(chunk_rows_, tokens - first);
    const float* x = residual_ + first * config_.hidden_size;
    if (config_.norm_place == NormPlace::before) {
      normalize(layer.attention_norm, x, count, normed_);
      x = normed_;
    }
    linear(context_, layer.qkv, x, count, qkv_ + first * width);
  }
  if (config_.query_key_norm) normalize_heads(layer, tokens);
  if (rope_) {
    const std::int32_t last = *std::max_element(batch.positions.begin(), batch.positions.end());
    rope(context_, qkv_, tokens, width, config_.num_heads + config_.num_kv_heads, config_.head_size,
         config_.rope.rotary_size, batch.positions, rope_->rows(context_, last + 1));
  }
  PagedAttentionArgs args;
  args.layout = batch.layout;
  args.cache = batch.cache;
  args.layer = index;
  args.sequences = batch.sequences;
  args.query = qkv_;
  args.key = qkv_ + config_.query_size();
  args.value = args.key + config_.kv_size();
  args.row_stride = width;
  args.num_query_heads = config_.num_heads;
  args.scale = 1.0f / std::sqrt(static_cast<float>(config_.head_size));
  args.sliding_window = config_.sliding_window[static_cast<std::size_t>(index)];
  args.output = attended_;
  paged_attention(context_, args);
}

// After the last layer's attention only the rows that give logits matter: they move to the front.
void DecoderModel::gather_output_rows(std::span<const std::int32_t> rows) {
  const auto move_row = [](float* rows_of, std::int64_t width, std::int64_t from, std::int64_t to) {
    if (from != to) {
      std::memmove(rows_of + to * width, rows_of + from * width,
                   static_cast<std::size_t>(width) * sizeof(float));
    }
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    move_row(residual_, config_.hidden_size, rows[i], static_cast<std::int64_t>(i));
    move_row(attended_, config_.query_size(), rows[i], static_cast<std::int64_t>(i));
  }
}

void DecoderModel::attention_output(const LayerWeights& layer, Rows rows) {
  float* x = residual_ + rows.first * config_.hidden_size;
  linear(context_, layer.attention_output, attended_ + rows.first * config_.query_size(), rows.count, x,
         LinearOutput::accumulate);
  if (config_.norm_place == NormPlace::after) normalize_in_place(layer.attention_norm, x, rows.count);
}

void DecoderModel::mlp(const LayerWeights& layer, Rows rows) {
  float* x = residual_ + rows.first * config_.hidden_size;
  const float* input = x;
  if (config_.norm_place == NormPlace::before) {
    normalize(layer.mlp_norm, x, rows.count, normed_);
    input = normed_;
  }
  linear(context_, layer.mlp_in, input, rows.count, mlp_in_);
  const float* inner = mlp_in_;
  if (config_.gated_mlp) {
    activate_and_multiply(context_, config_.activation, mlp_in_, rows.count, config_.intermediate_size,
                          mlp_hidden_);
    inner = mlp_hidden_;
  } else {
    activate(context_, config_.activation, mlp_in_, rows.count, config_.intermediate_size);
  }
  linear(context_, layer.mlp_out, inner, rows.count, x, LinearOutput::accumulate);
  if (config_.norm_place == NormPlace::after) normalize_in_place(layer.mlp_norm, x, rows.count);
}

void DecoderModel::forward(const DecoderBatch& batch) {
  auto rows = static_cast<std::int64_t>(batch.token_ids.size());
  CHECK(rows > 0 && rows <= max_batched_tokens_ && batch.positions.size() == batch.token_ids.size());
  embed(batch);
  for (std::int32_t index = 0; index < config_.num_layers; ++index) {
    const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(index)];
    attention(batch, index);
    if (index + 1 == config_.num_layers) {
      gather_output_rows(batch.output_rows);
      rows = static_cast<std::int64_t>(batch.output_rows.size());
    }
    for (std::int64_t first = 0; first < rows; first += chunk_rows_) {
      const Rows chunk = {first, std::min(chunk_rows_, rows - first)};
      attention_output(layer, chunk);
      mlp(layer, chunk);
    }
  }
}

void DecoderModel::logits(std::int64_t first, std::int64_t count, float* out) {
  for (; count > 0; first += chunk_rows_, count -= chunk_rows_) {
    const std::int64_t rows = std::min(chunk_rows_, count);
    const float* x = residual_ + first * config_.hidden_size;
    if (config_.final_norm) {
      normalize(weights_.final_norm, x, rows, normed_);
      x = normed_;
    }
    if (weights_.project_out) {
      float* projected = normed_ + rows * config_.hidden_size;
      linear(context_, *weights_.project_out, x, rows, projected);
      x = projected;
    }
    linear(context_, weights_.head, x, rows, out);
    out += rows * config_.vocab_size;
  }
}

}  // namespace pagoda
