#include "models/decoder_weights.h"

#include <array>
#include <cstring>

#include "base/strings.h"
#include "kernels/dequantize.h"
#include "models/weight_reader.h"

namespace pagoda {
namespace {

// Matrices on their way into a PackedLinear, with the copies that some need.
struct Matrices {
  std::vector<TensorView> views;
  std::vector<std::vector<std::byte>> copies;
  std::vector<float> bias;
};

class WeightLoader {
 public:
  WeightLoader(const KernelContext& context, const ModelSource& source, const WeightNames& names,
               const DecoderConfig& config, const TensorShard& shard, std::string_view dtype)
      : context_(context),
        names_(names),
        config_(config),
        shard_(shard),
        dtype_(dtype),
        reader_(source, names.optional_prefix) {}

  Result<DecoderWeights> load();

 private:
  NormWeights norm(const std::string& name, std::int64_t size);
  LayerWeights layer(std::int32_t index);
  // Adds these rows of [rows, columns] and of its bias, if the file has one, below what `matrices` holds.
  void add(Matrices& matrices, const std::string& name, std::int64_t rows, std::int64_t columns,
           std::span<const Range> ranges);
  TensorView stored(const std::string& weight, std::int64_t rows, std::int64_t columns);
  TensorView with_columns(const TensorView& matrix, const std::string& weight, Range range,
                          std::vector<std::byte>& copy);
  // [rows, columns] cut into `pieces` of its columns.
  RowParallelLinear row_parallel(const std::string& name, std::int64_t rows, std::int64_t columns,
                                 std::span<const Range> pieces);
  void reorder_rows(Matrices& matrices, std::size_t view, std::int64_t num_heads, std::int64_t first_bias);
  PackedLinear pack(Matrices matrices, const std::string& name, LinearForm form = LinearForm::stacked);
  PackedLinear linear(const std::string& name, std::int64_t rows, std::int64_t columns);

  const KernelContext& context_;
  const WeightNames& names_;
  const DecoderConfig& config_;
  const TensorShard& shard_;
  std::string_view dtype_;
  WeightReader reader_;
  std::int64_t packed_bytes_ = 0;
};

NormWeights WeightLoader::norm(const std::string& name, std::int64_t size) {
  NormWeights weights;
  weights.weight = reader_.vector(name + ".weight", size);
  if (config_.norm == NormKind::layer) weights.bias = reader_.optional_vector(name + ".bias", size);
  return weights;
}

// The rows of a matrix, which lie together.
TensorView with_rows(const TensorView& matrix, Range range) {
  return {matrix.dtype,
          {range.count, matrix.columns()},
          matrix.data + dtype_bytes(matrix.dtype, range.first * matrix.columns())};
}

// Rows `range` of [out, in], out of the stored [in, out].
TensorView transposed(const TensorView& stored, Range range, std::vector<std::byte>& copy) {
  const std::int64_t in = stored.rows(), out = stored.columns();
  const auto element = static_cast<std::size_t>(dtype_info(stored.dtype).block_bytes);
  copy.resize(static_cast<std::size_t>(in * range.count) * element);
  for (std::int64_t i = 0; i < in; ++i) {
    for (std::int64_t o = 0; o < range.count; ++o) {
      std::memcpy(copy.data() + static_cast<std::size_t>(o * in + i) * element,
                  stored.data + static_cast<std::size_t>(i * out + range.first + o) * element, element);
    }
  }
  return {stored.dtype, {range.count, in}, copy.data()};
}

// Ranges without those that are empty, neighbours joined.
std::vector<Range> joined(std::span<const Range> ranges) {
  std::vector<Range> result;
  for (const Range& range : ranges) {
    if (!result.empty() && result.back().end() == range.first)
      result.back().count += range.count;
    else if (range.count > 0)
      result.push_back(range);
  }
  return result;
}

// The tensor of a linear layer as it lies in the file: [rows, columns], or transposed.
TensorView WeightLoader::stored(const std::string& weight, std::int64_t rows, std::int64_t columns) {
  if (!names_.transposed) return reader_.matrix(weight, rows, columns);
  TensorView view = reader_.matrix(weight, columns, rows);
  if (reader_.status().ok() && is_quantized(view.dtype))
    reader_.fail(unimplemented(concat("tensor '", weight, "' is quantised and stored [in, out]")));
  return view;
}

void WeightLoader::add(Matrices& matrices, const std::string& name, std::int64_t rows, std::int64_t columns,
                       std::span<const Range> ranges) {
  const TensorView whole = stored(name + ".weight", rows, columns);
  const std::vector<float> bias = reader_.optional_vector(name + ".bias", rows);
  if (!reader_.status().ok()) return;
  for (const Range& range : joined(ranges)) {
    std::int64_t before = 0;
    for (const TensorView& view : matrices.views) before += view.rows();
    matrices.views.push_back(names_.transposed ? transposed(whole, range, matrices.copies.emplace_back())
                                               : with_rows(whole, range));
    if (bias.empty() && matrices.bias.empty()) continue;
    matrices.bias.resize(static_cast<std::size_t>(before), 0.0f);  // those above that have none
    if (!bias.empty())
      matrices.bias.insert(matrices.bias.end(), bias.begin() + range.first, bias.begin() + range.end());
    matrices.bias.resize(static_cast<std::size_t>(before + range.count), 0.0f);
  }
}

TensorView WeightLoader::with_columns(const TensorView& matrix, const std::string& weight, Range range,
                                      std::vector<std::byte>& copy) {
  const DTypeInfo& info = dtype_info(matrix.dtype);
  const std::int64_t rows = matrix.rows(), columns = matrix.columns();
  if (range.first % info.block_elements == 0 && range.count % info.block_elements == 0) {
    const auto bytes = static_cast<std::size_t>(dtype_bytes(matrix.dtype, range.count));
    copy.resize(static_cast<std::size_t>(rows) * bytes);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(copy.data() + static_cast<std::size_t>(row) * bytes,
                  matrix.data + dtype_bytes(matrix.dtype, row * columns + range.first), bytes);
    }
    return {matrix.dtype, {rows, range.count}, copy.data()};
  }
  const auto type = choose_linear_type(dtype_, matrix.dtype, context_.level);
  if (!type || (*type == LinearType::int8 && is_quantized(matrix.dtype))) {
    reader_.fail(unimplemented(concat("tensor '", weight, "' cannot be cut at column ", range.first,
                                      ", inside a block of ", info.name)));
    return {};
  }
  // Cut inside of blocks: as what they mean.
  std::vector<float> row_values(static_cast<std::size_t>(columns));
  const auto bytes = static_cast<std::size_t>(range.count) * sizeof(float);
  copy.resize(static_cast<std::size_t>(rows) * bytes);
  for (std::int64_t row = 0; row < rows; ++row) {
    dequantize_row(matrix, row, row_values.data());
    std::memcpy(copy.data() + static_cast<std::size_t>(row) * bytes, row_values.data() + range.first, bytes);
  }
  return {DType::f32, {rows, range.count}, copy.data()};
}

RowParallelLinear WeightLoader::row_parallel(const std::string& name, std::int64_t rows, std::int64_t columns,
                                             std::span<const Range> pieces) {
  const std::string weight = name + ".weight";
  const TensorView whole = stored(weight, rows, columns);
  std::vector<float> bias = reader_.optional_vector(name + ".bias", rows);
  if (shard_.rank != 0) bias.clear();
  RowParallelLinear result;
  for (const Range& piece : pieces) {
    if (!reader_.status().ok()) return {};
    Matrices matrices;
    if (names_.transposed) {
      // The columns of [out, in] are rows of what is stored.
      matrices.views.push_back(
          transposed(with_rows(whole, piece), {0, rows}, matrices.copies.emplace_back()));
    } else if (piece.count == columns) {
      matrices.views.push_back(whole);
    } else {
      matrices.views.push_back(with_columns(whole, weight, piece, matrices.copies.emplace_back()));
    }
    if (result.empty()) matrices.bias = std::move(bias);
    result.push_back(pack(std::move(matrices), name));
  }
  return result;
}

// Rows 2i and 2i + 1 of a head rotate together in the file; the kernels rotate rows i and i + rotary / 2.
void WeightLoader::reorder_rows(Matrices& matrices, std::size_t view, std::int64_t num_heads,
                                std::int64_t first_bias) {
  if (!reader_.status().ok()) return;
  TensorView& tensor = matrices.views[view];
  const auto row_bytes = static_cast<std::size_t>(dtype_bytes(tensor.dtype, tensor.columns()));
  const std::int64_t half = config_.rope.rotary_size / 2;
  std::vector<std::byte>& copy = matrices.copies.emplace_back(tensor.data, tensor.data + tensor.bytes());
  std::vector<float> bias = matrices.bias;
  for (std::int64_t head = 0; head < num_heads; ++head) {
    for (std::int64_t i = 0; i < half; ++i) {
      for (std::int64_t part = 0; part < 2; ++part) {
        const std::int64_t to = head * config_.head_size + part * half + i;
        const std::int64_t from = head * config_.head_size + 2 * i + part;
        std::memcpy(copy.data() + static_cast<std::size_t>(to) * row_bytes,
                    tensor.data + static_cast<std::size_t>(from) * row_bytes, row_bytes);
        if (!bias.empty()) {
          bias[static_cast<std::size_t>(first_bias + to)] =
              matrices.bias[static_cast<std::size_t>(first_bias + from)];
        }
      }
    }
  }
  tensor.data = copy.data();
  matrices.bias = std::move(bias);
}

PackedLinear WeightLoader::pack(Matrices matrices, const std::string& name, LinearForm form) {
  if (!reader_.status().ok()) return {};
  DType stored = matrices.views.front().dtype;
  for (const TensorView& view : matrices.views) {
    if (is_quantized(view.dtype)) stored = view.dtype;
  }
  const auto type = choose_linear_type(dtype_, stored, context_.level);
  if (!type) {
    reader_.fail(type.error());
    return {};
  }
  auto packed = PackedLinear::pack(context_, *type, matrices.views, std::move(matrices.bias), form);
  if (!packed) {
    reader_.fail(packed.error().annotate(concat("tensor '", name, "'")));
    return {};
  }
  packed_bytes_ += packed->packed_bytes();
  return *std::move(packed);
}

PackedLinear WeightLoader::linear(const std::string& name, std::int64_t rows, std::int64_t columns) {
  Matrices matrices;
  add(matrices, name, rows, columns, std::array{Range{0, rows}});
  return pack(std::move(matrices), name);
}

LayerWeights WeightLoader::layer(std::int32_t index) {
  std::string prefix = names_.layer;
  prefix.replace(prefix.find("{}"), 2, std::to_string(index));
  LayerWeights weights;
  weights.attention_norm = norm(prefix + names_.attention_norm, config_.hidden_size);
  weights.mlp_norm = norm(prefix + names_.mlp_norm, config_.hidden_size);
  if (config_.query_key_norm) {
    weights.query_norm = reader_.vector(prefix + names_.query_norm + ".weight", config_.head_size);
    weights.key_norm = reader_.vector(prefix + names_.key_norm + ".weight", config_.head_size);
  }

  const auto heads = [&](Range range) {
    return Range{range.first * config_.head_size, range.count * config_.head_size};
  };
  const Range query = heads(shard_.query_heads), kv = heads(shard_.kv_heads);
  Matrices qkv;
  if (!names_.fused_qkv.empty()) {
    const Range key = {config_.query_size() + kv.first, kv.count};
    const Range value = {config_.query_size() + config_.kv_size() + kv.first, kv.count};
    add(qkv, prefix + names_.fused_qkv, config_.qkv_size(), config_.hidden_size,
        std::array{query, key, value});
  } else {
    add(qkv, prefix + names_.query, config_.query_size(), config_.hidden_size, std::array{query});
    add(qkv, prefix + names_.key, config_.kv_size(), config_.hidden_size, std::array{kv});
    add(qkv, prefix + names_.value, config_.kv_size(), config_.hidden_size, std::array{kv});
    if (config_.interleaved_rows && config_.position == PositionKind::rope) {
      reorder_rows(qkv, 0, shard_.query_heads.count, 0);
      reorder_rows(qkv, 1, shard_.kv_heads.count, query.count);
    }
  }
  weights.qkv = pack(std::move(qkv), prefix + (names_.fused_qkv.empty() ? names_.query : names_.fused_qkv));
  std::vector<Range> pieces;
  for (const Range& piece : shard_.attention_pieces) pieces.push_back(heads(piece));
  weights.attention_output =
      row_parallel(prefix + names_.attention_output, config_.hidden_size, config_.query_size(), pieces);

  const std::array own_rows = {shard_.intermediate};
  Matrices mlp_in;
  if (config_.gated_mlp)
    add(mlp_in, prefix + names_.gate, config_.intermediate_size, config_.hidden_size, own_rows);
  add(mlp_in, prefix + names_.up, config_.intermediate_size, config_.hidden_size, own_rows);
  weights.mlp_in = pack(std::move(mlp_in), prefix + names_.up,
                        config_.gated_mlp ? LinearForm::gated : LinearForm::stacked);
  weights.mlp_out =
      row_parallel(prefix + names_.down, config_.hidden_size, config_.intermediate_size, shard_.mlp_pieces);
  return weights;
}

// The order in which a step multiplies them; after the head, the next step's first.
void link(DecoderWeights& weights) {
  PackedLinear* before = &weights.head;
  const auto then = [&](PackedLinear& matrix) {
    before->precedes(matrix);
    before = &matrix;
  };
  for (LayerWeights& layer : weights.layers) {
    then(layer.qkv);
    for (PackedLinear& piece : layer.attention_output) then(piece);
    then(layer.mlp_in);
    for (PackedLinear& piece : layer.mlp_out) then(piece);
  }
  then(weights.head);
}

Result<DecoderWeights> WeightLoader::load() {
  DecoderWeights weights;
  const std::string embedding = names_.token_embedding + ".weight";
  const TensorView all_tokens = reader_.matrix(embedding, config_.vocab_size, config_.embedding_size);
  if (!reader_.status().ok()) return reader_.status();
  weights.token_embedding = with_rows(all_tokens, shard_.own_vocab());
  if (config_.position == PositionKind::learned) {
    weights.position_embedding =
        reader_.matrix(names_.position_embedding + ".weight", config_.max_positions + config_.position_offset,
                       config_.hidden_size);
  } else if (!names_.rope_factors.empty()) {
    weights.rope_factors = reader_.optional_vector(names_.rope_factors, config_.rope.rotary_size / 2);
  }
  if (config_.embedding_size != config_.hidden_size) {
    weights.project_in = linear(names_.project_in, config_.hidden_size, config_.embedding_size);
    weights.project_out = linear(names_.project_out, config_.embedding_size, config_.hidden_size);
  }
  for (std::int32_t index = 0; index < config_.num_layers && reader_.status().ok(); ++index) {
    weights.layers.push_back(layer(index));
  }
  if (config_.final_norm) weights.final_norm = norm(names_.final_norm, config_.hidden_size);

  // Tied weights are sometimes stored a second time: the embedding is what the model was trained with.
  if (config_.tied_head) {
    Matrices head;
    head.views.push_back(weights.token_embedding);
    weights.head = pack(std::move(head), embedding);
    reader_.ignore(names_.head + ".weight");
  } else {
    Matrices head;  // never transposed: the one matrix that Conv1D families store as all others
    const TensorView rows =
        reader_.matrix(names_.head + ".weight", config_.vocab_size, config_.embedding_size);
    if (reader_.status().ok()) head.views.push_back(with_rows(rows, shard_.own_vocab()));
    weights.head = pack(std::move(head), names_.head);
  }
  if (!reader_.status().ok()) return reader_.status();
  link(weights);
  weights.packed_bytes = packed_bytes_;
  weights.ignored_tensors = reader_.unused();
  return weights;
}

}  // namespace

Result<DecoderWeights> load_decoder_weights(const KernelContext& context, const ModelSource& source,
                                            const WeightNames& names, const DecoderConfig& config,
                                            const TensorShard& shard, std::string_view dtype) {
  return WeightLoader(context, source, names, config, shard, dtype).load();
}

}  // namespace pagoda
