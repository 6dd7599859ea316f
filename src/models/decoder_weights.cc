#include "models/decoder_weights.h"

#include <cstring>

#include "base/strings.h"
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
               const DecoderConfig& config, std::string_view dtype)
      : context_(context),
        names_(names),
        config_(config),
        dtype_(dtype),
        reader_(source, names.optional_prefix) {}

  Result<DecoderWeights> load();

 private:
  NormWeights norm(const std::string& name, std::int64_t size);
  LayerWeights layer(std::int32_t index);
  // Adds [rows, columns] and its bias, if the file has one, below what `matrices` holds.
  void add(Matrices& matrices, const std::string& name, std::int64_t rows, std::int64_t columns);
  void reorder_rows(Matrices& matrices, std::size_t view, std::int64_t num_heads, std::int64_t first_bias);
  PackedLinear pack(Matrices matrices, const std::string& name);
  PackedLinear linear(const std::string& name, std::int64_t rows, std::int64_t columns);

  const KernelContext& context_;
  const WeightNames& names_;
  const DecoderConfig& config_;
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

// [in, out] as stored -> [out, in].
TensorView transposed(const TensorView& stored, std::vector<std::byte>& copy) {
  const std::int64_t in = stored.rows(), out = stored.columns();
  const auto element = static_cast<std::size_t>(dtype_info(stored.dtype).block_bytes);
  copy.resize(static_cast<std::size_t>(stored.bytes()));
  for (std::int64_t i = 0; i < in; ++i) {
    for (std::int64_t o = 0; o < out; ++o) {
      std::memcpy(copy.data() + static_cast<std::size_t>(o * in + i) * element,
                  stored.data + static_cast<std::size_t>(i * out + o) * element, element);
    }
  }
  return {stored.dtype, {out, in}, copy.data()};
}

void WeightLoader::add(Matrices& matrices, const std::string& name, std::int64_t rows, std::int64_t columns) {
  const std::string weight = name + ".weight";
  TensorView view =
      names_.transposed ? reader_.matrix(weight, columns, rows) : reader_.matrix(weight, rows, columns);
  if (names_.transposed && reader_.status().ok()) {
    if (is_quantized(view.dtype)) {
      return reader_.fail(unimplemented(concat("tensor '", weight, "' is quantised and stored [in, out]")));
    }
    view = transposed(view, matrices.copies.emplace_back());
  }
  matrices.views.push_back(std::move(view));
  std::int64_t before = 0;
  for (std::size_t i = 0; i + 1 < matrices.views.size(); ++i) before += matrices.views[i].rows();
  const std::vector<float> bias = reader_.optional_vector(name + ".bias", rows);
  if (bias.empty() && matrices.bias.empty()) return;
  matrices.bias.resize(static_cast<std::size_t>(before), 0.0f);  // those above that have none
  matrices.bias.insert(matrices.bias.end(), bias.begin(), bias.end());
  matrices.bias.resize(static_cast<std::size_t>(before + rows), 0.0f);
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

PackedLinear WeightLoader::pack(Matrices matrices, const std::string& name) {
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
  auto packed = PackedLinear::pack(context_, *type, matrices.views, std::move(matrices.bias));
  if (!packed) {
    reader_.fail(packed.error().annotate(concat("tensor '", name, "'")));
    return {};
  }
  packed_bytes_ += packed->packed_bytes();
  return *std::move(packed);
}

PackedLinear WeightLoader::linear(const std::string& name, std::int64_t rows, std::int64_t columns) {
  Matrices matrices;
  add(matrices, name, rows, columns);
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

  Matrices qkv;
  if (!names_.fused_qkv.empty()) {
    add(qkv, prefix + names_.fused_qkv, config_.qkv_size(), config_.hidden_size);
  } else {
    add(qkv, prefix + names_.query, config_.query_size(), config_.hidden_size);
    add(qkv, prefix + names_.key, config_.kv_size(), config_.hidden_size);
    add(qkv, prefix + names_.value, config_.kv_size(), config_.hidden_size);
    if (config_.interleaved_rows && config_.position == PositionKind::rope) {
      reorder_rows(qkv, 0, config_.num_heads, 0);
      reorder_rows(qkv, 1, config_.num_kv_heads, config_.query_size());
    }
  }
  weights.qkv = pack(std::move(qkv), prefix + (names_.fused_qkv.empty() ? names_.query : names_.fused_qkv));
  weights.attention_output =
      linear(prefix + names_.attention_output, config_.hidden_size, config_.query_size());

  Matrices mlp_in;
  if (config_.gated_mlp) add(mlp_in, prefix + names_.gate, config_.intermediate_size, config_.hidden_size);
  add(mlp_in, prefix + names_.up, config_.intermediate_size, config_.hidden_size);
  weights.mlp_in = pack(std::move(mlp_in), prefix + names_.up);
  weights.mlp_out = linear(prefix + names_.down, config_.hidden_size, config_.intermediate_size);
  return weights;
}

Result<DecoderWeights> WeightLoader::load() {
  DecoderWeights weights;
  const std::string embedding = names_.token_embedding + ".weight";
  weights.token_embedding = reader_.matrix(embedding, config_.vocab_size, config_.embedding_size);
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
    head.views.push_back(reader_.matrix(names_.head + ".weight", config_.vocab_size, config_.embedding_size));
    weights.head = pack(std::move(head), names_.head);
  }
  if (!reader_.status().ok()) return reader_.status();
  weights.packed_bytes = packed_bytes_;
  weights.ignored_tensors = reader_.unused();
  return weights;
}

}  // namespace

Result<DecoderWeights> load_decoder_weights(const KernelContext& context, const ModelSource& source,
                                            const WeightNames& names, const DecoderConfig& config,
                                            std::string_view dtype) {
  return WeightLoader(context, source, names, config, dtype).load();
}

}  // namespace pagoda
