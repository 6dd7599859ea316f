#include "models/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/read_ahead.h"
#include "kernels/tiles.h"
#include "models/architecture.h"

namespace pagoda {
namespace {

// Rows that pass through the row-wise half of a layer together. Few keep their activations in the
// second-level caches; but each chunk reads the layer's weights again.
std::int64_t chunk_rows(std::int32_t max_batched_tokens) {
  return std::min<std::int64_t>(max_batched_tokens, 256);
}

constexpr std::int64_t kLogitChunk = 64;  // rows of logits that the ranks gather together

// Float counts of the buffers, each rounded up to whole cache lines. `local` has this rank's heads and
// intermediate features; the chunks are the whole model's, the same on every rank.
struct BufferSizes {
  std::int64_t residual, qkv, attended, normed, inner;
  std::int64_t partial = 0, own_logits = 0, gathered = 0;

  BufferSizes(const DecoderConfig& local, std::int64_t chunk, std::int32_t tokens, const TensorShard& shard) {
    residual = padded(std::int64_t{tokens} * local.hidden_size);
    qkv = padded(std::int64_t{tokens} * local.qkv_size());
    attended = padded(std::int64_t{tokens} * local.query_size());
    normed = padded(chunk * std::max(local.hidden_size, local.embedding_size));
    inner = padded(chunk * local.intermediate_size);
    if (!shard.split()) return;
    const auto pieces =
        static_cast<std::int64_t>(std::max(shard.attention_pieces.size(), shard.mlp_pieces.size()));
    partial = padded(pieces * chunk * local.hidden_size);
    if (shard.size == 1) return;
    const std::int64_t rows = std::min(chunk, kLogitChunk);
    own_logits = padded(rows * shard.own_vocab().count);
    if (shard.rank == 0) gathered = padded(rows * local.vocab_size);
  }
  std::int64_t total() const {
    return residual + qkv + attended + normed + inner + partial + own_logits + gathered;
  }

 private:
  static std::int64_t padded(std::int64_t count) { return (count + 15) / 16 * 16; }
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

Status DecoderModel::check_split(const ModelSource& source, std::string_view dtype, std::int32_t size,
                                 SumOrder order) {
  auto config = describe_decoder(source.config());
  if (!config) return config.error();
  auto architecture = find_architecture(source.config().architecture);
  if (!architecture) return architecture.error();
  const WeightNames names = (*architecture)->names(source.format());
  const auto shard = plan_shard(*config, column_blocks(source, names, *config, dtype), 0, size, order);
  return shard ? ok_status() : shard.error();
}

Result<std::unique_ptr<DecoderModel>> DecoderModel::load(const KernelContext& context,
                                                         const ModelSource& source, std::string_view dtype,
                                                         std::int32_t max_batched_tokens,
                                                         const ParallelContext& parallel) {
  if (max_batched_tokens <= 0) return invalid_argument("max_num_batched_tokens must be positive");
  auto config = describe_decoder(source.config());
  if (!config) return config.error();
  auto architecture = find_architecture(source.config().architecture);
  if (!architecture) return architecture.error();
  const WeightNames names = (*architecture)->names(source.format());
  // A GGUF file says that its head is tied by not having one.
  if (source.format() == ModelFormat::gguf)
    config->tied_head = source.find(names.head + ".weight") == nullptr;
  auto shard = plan_shard(*config, column_blocks(source, names, *config, dtype), parallel.rank(),
                          parallel.size(), parallel.deterministic ? SumOrder::fixed : SumOrder::any);
  if (!shard) return shard.error();

  std::unique_ptr<DecoderModel> decoder(new DecoderModel);
  decoder->context_ = context;
  decoder->parallel_ = parallel;
  decoder->config_ = *config;
  decoder->local_ = *config;
  decoder->local_.num_heads = static_cast<std::int32_t>(shard->query_heads.count);
  decoder->local_.num_kv_heads = static_cast<std::int32_t>(shard->kv_heads.count);
  decoder->local_.intermediate_size = static_cast<std::int32_t>(shard->intermediate.count);
  decoder->shard_ = *std::move(shard);
  decoder->one_each_.assign(static_cast<std::size_t>(parallel.size()), 1);
  decoder->max_batched_tokens_ = max_batched_tokens;
  decoder->chunk_rows_ = chunk_rows(max_batched_tokens);
  auto weights = load_decoder_weights(context, source, names, *config, decoder->shard_, dtype);
  if (!weights) return weights.error();
  decoder->weights_ = *std::move(weights);
  if (config->position == PositionKind::rope) {
    auto rope = RopeTable::create(config->rope, decoder->weights_.rope_factors, config->max_positions);
    if (!rope) return rope.error();
    decoder->rope_ = *std::move(rope);
  }

  const BufferSizes sizes(decoder->local_, decoder->chunk_rows_, max_batched_tokens, decoder->shard_);
  auto memory = Memory::reserve(static_cast<std::size_t>(sizes.total()) * sizeof(float));
  if (!memory) return memory.error();
  decoder->memory_ = *std::move(memory);
  auto* next = decoder->memory_.as<float>();
  const auto take = [&](std::int64_t count) { return std::exchange(next, next + count); };
  decoder->residual_ = take(sizes.residual);
  decoder->qkv_ = take(sizes.qkv);
  decoder->attended_ = take(sizes.attended);
  decoder->normed_ = take(sizes.normed);
  decoder->inner_ = take(sizes.inner);
  decoder->partial_ = take(sizes.partial);
  decoder->own_logits_ = take(sizes.own_logits);
  decoder->gathered_ = take(sizes.gathered);
  return decoder;
}

// x, normalised on its way into a matrix.
LinearInput DecoderModel::normalized(const NormWeights& norm, const float* x) const {
  return {.x = x,
          .stride = config_.hidden_size,
          .op = config_.norm == NormKind::rms ? LinearInput::Op::rms_norm : LinearInput::Op::layer_norm,
          .weight = norm.weight.data(),
          .bias = norm.bias.empty() ? nullptr : norm.bias.data(),
          .eps = config_.norm_eps};
}

// The input of a layer's matrices: normalised, unless norms stand behind them.
LinearInput DecoderModel::layer_input(const NormWeights& norm, const float* x) const {
  if (config_.norm_place == NormPlace::before) return normalized(norm, x);
  return LinearInput::rows(x, config_.hidden_size);
}

void DecoderModel::normalize_in_place(const NormWeights& norm, float* x, std::int64_t count) {
  if (config_.norm == NormKind::rms) {
    rms_norm(context_, x, count, config_.hidden_size, norm.weight.data(), config_.norm_eps, normed_);
  } else {
    layer_norm(context_, x, count, config_.hidden_size, norm.weight.data(),
               norm.bias.empty() ? nullptr : norm.bias.data(), config_.norm_eps, normed_);
  }
  std::memcpy(x, normed_, static_cast<std::size_t>(count * config_.hidden_size) * sizeof(float));
}

Status DecoderModel::sum_over_ranks(std::span<float> data, std::int64_t length,
                                    std::span<const std::int32_t> parts) {
  if (parallel_.communicator != nullptr) {
    const auto order = parallel_.deterministic ? Communicator::Order::in_order : Communicator::Order::any;
    return parallel_.communicator->all_reduce_sum(data, length, parts, order, parallel_.timeout);
  }
  for (std::int32_t part = 1; part < parts[0]; ++part)
    add_vector(data.data() + part * length, length, data.data());
  return ok_status();
}

// y += the sum of input W^T over all pieces and ranks; the input has this rank's columns.
Status DecoderModel::add_row_parallel(const RowParallelLinear& weight, std::span<const std::int32_t> parts,
                                      LinearInput input, std::int64_t count, float* y) {
  if (!shard_.split()) {
    linear(context_, weight.front(), input, count, y, {.accumulate = true});
    return ok_status();
  }
  const std::int64_t length = count * config_.hidden_size;
  float* out = partial_;
  for (const PackedLinear& piece : weight) {
    linear(context_, piece, input, count, out);
    input.x += piece.k();
    out += length;
  }
  PAGODA_RETURN_IF_ERROR(sum_over_ranks(std::span(partial_, out), length, parts));
  add_vector(partial_, length, y);
  return ok_status();
}

// Rows of the token embedding. Each rank has some tokens' rows and brings zeros for the others'.
Status DecoderModel::embed_tokens(std::span<const std::int32_t> ids, float* out) {
  if (shard_.size == 1) {
    embedding(context_, weights_.token_embedding, ids, out);
    return ok_status();
  }
  const Range own = shard_.own_vocab();
  const auto is_own = [&](std::int32_t id) { return id >= own.first && id < own.end(); };
  own_ids_.clear();
  for (const std::int32_t id : ids)
    own_ids_.push_back(is_own(id) ? id - static_cast<std::int32_t>(own.first) : 0);
  embedding(context_, weights_.token_embedding, own_ids_, out);
  const std::int64_t width = config_.embedding_size;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    float* values = out + static_cast<std::int64_t>(row) * width;
    if (!is_own(ids[row])) std::fill(values, values + width, 0.0f);
  }
  const std::int64_t length = static_cast<std::int64_t>(ids.size()) * width;
  return sum_over_ranks(std::span(out, static_cast<std::size_t>(length)), length, one_each_);
}

// Of nearly equal height, since a low one costs more a row.
DecoderModel::Rows DecoderModel::chunk(std::int64_t rows, std::int64_t index) const {
  const std::int64_t count = num_chunks(rows), first = rows * index / count;
  return {first, rows * (index + 1) / count - first};
}

Status DecoderModel::embed(const DecoderBatch& batch) {
  const std::int64_t hidden = config_.hidden_size;
  const auto tokens = static_cast<std::int64_t>(batch.token_ids.size());
  if (config_.position == PositionKind::learned) {
    shifted_positions_.assign(batch.positions.begin(), batch.positions.end());
    for (std::int32_t& position : shifted_positions_) position += config_.position_offset;
  }
  for (std::int64_t i = 0; i < num_chunks(tokens); ++i) {
    const Rows rows = chunk(tokens, i);
    const auto start = static_cast<std::size_t>(rows.first), count = static_cast<std::size_t>(rows.count);
    float* x = residual_ + rows.first * hidden;
    if (weights_.project_in) {
      PAGODA_RETURN_IF_ERROR(embed_tokens(batch.token_ids.subspan(start, count), normed_));
      linear(context_, *weights_.project_in, LinearInput::rows(normed_, config_.embedding_size), rows.count,
             x);
    } else {
      PAGODA_RETURN_IF_ERROR(embed_tokens(batch.token_ids.subspan(start, count), x));
    }
    if (config_.position == PositionKind::learned) {
      embedding(context_, weights_.position_embedding, std::span(shifted_positions_).subspan(start, count),
                normed_);
      for (std::int64_t j = 0; j < rows.count * hidden; ++j) x[j] += normed_[j];
    }
  }
  return ok_status();
}

// RMS norm of each query and key head in the fused rows, in place.
void DecoderModel::normalize_heads(const LayerWeights& layer, float* qkv, std::int64_t count) {
  const std::int32_t size = config_.head_size;
  const auto body = [&](std::int64_t row, int) {
    float* heads = qkv + row * local_.qkv_size();
    for (std::int32_t head = 0; head < local_.num_heads + local_.num_kv_heads; ++head, heads += size) {
      const float* weight = head < local_.num_heads ? layer.query_norm.data() : layer.key_norm.data();
      double sum = 0;
      for (std::int32_t i = 0; i < size; ++i) sum += static_cast<double>(heads[i]) * heads[i];
      const auto scale = static_cast<float>(1.0 / std::sqrt(sum / size + config_.norm_eps));
      for (std::int32_t i = 0; i < size; ++i) heads[i] = heads[i] * scale * weight[i];
    }
  };
  for_tiles(context_, count, body);
}

// residual -> query, key, value
void DecoderModel::query_key_value(const DecoderBatch& batch, const LayerWeights& layer, Rows rows) {
  const std::int64_t width = local_.qkv_size();
  float* const qkv = qkv_ + rows.first * width;
  linear(context_, layer.qkv, layer_input(layer.attention_norm, residual_ + rows.first * config_.hidden_size),
         rows.count, qkv);
  if (config_.query_key_norm) normalize_heads(layer, qkv, rows.count);
  if (!rope_) return;
  const auto positions =
      batch.positions.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
  const std::int32_t last = *std::max_element(positions.begin(), positions.end());
  rope(context_, qkv, rows.count, width, local_.num_heads + local_.num_kv_heads, config_.head_size,
       config_.rope.rotary_size, positions, rope_->rows(context_, last + 1));
}

// Of query, key, value to attended, for all rows of the batch.
PagedAttentionArgs DecoderModel::attention_of(const DecoderBatch& batch, std::int32_t index) const {
  const auto tokens = static_cast<std::int64_t>(batch.token_ids.size());
  const float* const key = qkv_ + local_.query_size();
  return {.layout = batch.layout,
          .cache = batch.cache,
          .layer = index,
          .sequences = batch.sequences,
          .rows_at_once = chunk(tokens, 0).count,
          .query = qkv_,
          .key = key,
          .value = key + local_.kv_size(),
          .row_stride = local_.qkv_size(),
          .num_query_heads = local_.num_heads,
          .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_size)),
          .sliding_window = config_.sliding_window[static_cast<std::size_t>(index)],
          .output = attended_};
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
    move_row(attended_, local_.query_size(), rows[i], static_cast<std::int64_t>(i));
  }
}

Status DecoderModel::attention_output(const LayerWeights& layer, Rows rows) {
  float* x = residual_ + rows.first * config_.hidden_size;
  const std::int64_t width = local_.query_size();
  PAGODA_RETURN_IF_ERROR(add_row_parallel(layer.attention_output, shard_.attention_parts,
                                          LinearInput::rows(attended_ + rows.first * width, width),
                                          rows.count, x));
  if (config_.norm_place == NormPlace::after) normalize_in_place(layer.attention_norm, x, rows.count);
  return ok_status();
}

Status DecoderModel::mlp(const LayerWeights& layer, Rows rows) {
  float* x = residual_ + rows.first * config_.hidden_size;
  const LinearInput input = layer_input(layer.mlp_norm, x);
  if (shard_.split()) {
    const std::int64_t width = local_.intermediate_size;
    linear(context_, layer.mlp_in, input, rows.count, inner_, {.activation = config_.activation});
    PAGODA_RETURN_IF_ERROR(
        add_row_parallel(layer.mlp_out, shard_.mlp_parts, LinearInput::rows(inner_, width), rows.count, x));
  } else {
    linear_pair(context_, layer.mlp_in, config_.activation, layer.mlp_out.front(), input, rows.count, inner_,
                x);
  }
  if (config_.norm_place == NormPlace::after) normalize_in_place(layer.mlp_norm, x, rows.count);
  return ok_status();
}

// While matrices are multiplied until the next layer's attention, or the last two of them, its K and V come
// into the cache.
void DecoderModel::read_next_layer_ahead(const DecoderBatch& batch, std::int32_t next) {
  const auto rows = static_cast<std::int64_t>(batch.token_ids.size());
  const BringsAhead when = brings_ahead(context_, rows);
  if (when == BringsAhead::nothing) return;
  const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(next)];
  list_context(context_, attention_of(batch, next), read_ahead_);
  const auto of = [](const RowParallelLinear& weight) {
    std::int64_t sum = 0;
    for (const PackedLinear& piece : weight) sum += piece.multiplications();
    return sum;
  };
  const std::int64_t first = (of(layer.attention_output) + layer.mlp_in.multiplications()) * rows,
                     last = (of(layer.mlp_out) + layer.qkv.multiplications()) * rows;
  if (when == BringsAhead::late)
    read_ahead_.start(first, last);
  else
    read_ahead_.start(0, first + last);
  context_.read_ahead = read_ahead_.pieces.empty() ? nullptr : &read_ahead_;
}

Status DecoderModel::forward(const DecoderBatch& batch) {
  const auto tokens = static_cast<std::int64_t>(batch.token_ids.size());
  CHECK(tokens > 0 && tokens <= max_batched_tokens_ && batch.positions.size() == batch.token_ids.size());
  std::int64_t rows = tokens;
  PAGODA_RETURN_IF_ERROR(embed(batch));
  for (std::int32_t index = 0; index < config_.num_layers; ++index) {
    const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(index)];
    for (std::int64_t i = 0; i < num_chunks(tokens); ++i) query_key_value(batch, layer, chunk(tokens, i));
    context_.read_ahead = nullptr;
    paged_attention(context_, attention_of(batch, index));
    if (index + 1 == config_.num_layers) {
      gather_output_rows(batch.output_rows);
      rows = static_cast<std::int64_t>(batch.output_rows.size());
    } else {
      read_next_layer_ahead(batch, index + 1);
    }
    for (std::int64_t i = 0; i < num_chunks(rows); ++i) {
      const Rows some = chunk(rows, i);
      PAGODA_RETURN_IF_ERROR(attention_output(layer, some));
      PAGODA_RETURN_IF_ERROR(mlp(layer, some));
    }
  }
  return ok_status();
}

// Each rank has the logits of its own tokens: rank 0 puts the rows together.
Status DecoderModel::gather_logits(const LinearInput& input, std::int64_t count, float* out) {
  linear(context_, weights_.head, input, count, own_logits_);
  std::vector<std::size_t> sizes;
  for (const Range& part : shard_.vocab)
    sizes.push_back(static_cast<std::size_t>(count * part.count) * sizeof(float));
  const std::span own(own_logits_, static_cast<std::size_t>(count * shard_.own_vocab().count));
  auto* const all =
      reinterpret_cast<std::byte*>(count == 1 ? out : gathered_);  // one row is in order at once
  PAGODA_RETURN_IF_ERROR(parallel_.communicator->gather(std::as_bytes(own), sizes, all, parallel_.timeout));
  if (shard_.rank != 0 || count == 1) return ok_status();
  const float* from = gathered_;
  for (const Range& part : shard_.vocab) {
    for (std::int64_t row = 0; row < count; ++row, from += part.count) {
      std::memcpy(out + row * config_.vocab_size + part.first, from,
                  static_cast<std::size_t>(part.count) * sizeof(float));
    }
  }
  return ok_status();
}

// What the head multiplies: rows of the last layer's output, normalised, projected.
LinearInput DecoderModel::head_input(std::int64_t first, std::int64_t count) {
  const float* x = residual_ + first * config_.hidden_size;
  const LinearInput input =
      config_.final_norm ? normalized(weights_.final_norm, x) : LinearInput::rows(x, config_.hidden_size);
  if (!weights_.project_out) return input;
  linear(context_, *weights_.project_out, input, count, normed_);
  return LinearInput::rows(normed_, config_.embedding_size);
}

void DecoderModel::largest_logits(std::span<LogitMax> largest) {
  CHECK(shard_.size == 1);
  const auto count = static_cast<std::int64_t>(largest.size());
  for (std::int64_t i = 0; i < num_chunks(count); ++i) {
    const Rows rows = chunk(count, i);
    linear_max(context_, weights_.head, head_input(rows.first, rows.count),
               largest.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count)));
  }
}

Status DecoderModel::logits(std::int64_t first, std::int64_t count, float* out) {
  const std::int64_t chunk = shard_.size == 1 ? chunk_rows_ : std::min(chunk_rows_, kLogitChunk);
  for (; count > 0; first += chunk, count -= chunk) {
    const std::int64_t rows = std::min(chunk, count);
    const LinearInput input = head_input(first, rows);
    if (shard_.size == 1)
      linear(context_, weights_.head, input, rows, out, {.read_late = true});
    else
      PAGODA_RETURN_IF_ERROR(gather_logits(input, rows, out));
    if (out != nullptr) out += rows * config_.vocab_size;
  }
  return ok_status();
}

}  // namespace pagoda
