#include "model_runner/kv_layout_choice.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "kernels/dequantize.h"
#include "kernels/linear.h"
#include "models/weight_names.h"
#include "models/weights/kv_scales.h"

namespace pagoda {
namespace {

// Returns the largest absolute value among the file's key biases (separate or fused with those of queries and
// values) and the weights of key norms.
float largest_in_keys(const ModelSource& source, const WeightNames& names) {
  std::vector<std::string> ends;
  for (const std::string& name : {names.key, names.fused_qkv})
    if (!name.empty()) ends.push_back(concat(".", name, ".bias"));
  if (!names.key_norm.empty()) ends.push_back(concat(".", names.key_norm, ".weight"));
  float largest = 0;
  std::vector<float> values;
  for (const std::string& name : source.tensor_names()) {
    if (std::ranges::none_of(ends, [&](const std::string& end) { return name.ends_with(end); })) continue;
    const TensorView& tensor = *source.find(name);
    if (tensor.shape.empty() || tensor.elements() % dtype_info(tensor.dtype).block_elements != 0) continue;
    if (!source.bring_in(tensor).ok()) continue;  // the loader will report the error
    values.resize(static_cast<std::size_t>(tensor.elements()));
    dequantize(tensor.dtype, tensor.data, tensor.elements(), values.data());
    for (const float value : values) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

// True if any of the model's matrices are multiplied in 8 bits.
bool uses_int8(const ModelSource& source, std::string_view dtype) {
  if (dtype != "auto") return dtype == "int8";
  return std::ranges::any_of(source.tensor_names(), [&](const std::string& name) {
    const TensorView& tensor = *source.find(name);
    return tensor.shape.size() > 1 && multiplies_in_int8(tensor.dtype);
  });
}

// True if a quantised folder was made from a bfloat16 model, as its unquantised tensors show.
bool is_bfloat16_folder(const ModelSource& source, const WeightNames& names) {
  if (source.format() != ModelFormat::hugging_face) return false;
  const std::string end = concat(names.token_embedding, ".weight");
  return std::ranges::any_of(source.tensor_names(), [&](const std::string& name) {
    return name.ends_with(end) && source.find(name)->dtype == DType::bf16;
  });
}

Result<DType> kv_dtype(const ModelSource& source, const ModelInfo& model, std::string_view dtype,
                       std::string_view kv_cache_dtype, std::int32_t head_size, bool latent) {
  if (kv_cache_dtype == "auto") return automatic_kv_dtype(source, model, dtype);
  if (kv_cache_dtype == "float32") return DType::f32;
  if (kv_cache_dtype == "bfloat16") return DType::bf16;
  if (kv_cache_dtype == "float16") return DType::f16;
  if (kv_cache_dtype == "fp8" || kv_cache_dtype == "fp8_e4m3") {
    if (const auto scales = kv_scales(source, model); !scales)
      return scales.error().annotate(concat("kv-cache-dtype ", kv_cache_dtype));
    return DType::e4m3;
  }
  // A single scale would cover two parts of very different magnitude.
  if (kv_cache_dtype == "int8" && latent)
    return invalid_argument(
        "kv-cache-dtype 'int8' is not supported for models with latent attention; use bfloat16, float16 or "
        "float32");
  if (kv_cache_dtype == "int8") {
    if (head_size <= kMaxInt8HeadSize) return DType::i8;
    return invalid_argument(concat("kv-cache-dtype 'int8' takes heads of at most ", kMaxInt8HeadSize,
                                   "; this model's have ", head_size));
  }
  return invalid_argument(concat("kv-cache-dtype '", kv_cache_dtype,
                                 "' is not supported; use auto, float32, bfloat16, float16, int8 or fp8"));
}

}  // namespace

DType automatic_kv_dtype(const ModelSource& source, const ModelInfo& model, std::string_view dtype) {
  if (dtype == "float32") return DType::f32;
  if (dtype == "float16") return DType::f16;
  // bfloat16's rounding of values this large exceeds typical keys. float16 has three more bits, but a limited
  // range, which the upper bound stays clear of. With 8-bit products, which lose little, bfloat16's rounding
  // of keys and values is up to a fifth of the total loss; a model in bfloat16 is computed with that rounding
  // upstream.
  constexpr float kLarge = 8, kTooLarge = 4096;
  const WeightNames names = model.names(source.format());
  const float largest = largest_in_keys(source, names);
  if (largest > kTooLarge) return DType::bf16;
  if (largest >= kLarge) return DType::f16;
  return uses_int8(source, dtype) && !is_bfloat16_folder(source, names) ? DType::f16 : DType::bf16;
}

Result<KvLayout> plan_kv_layout(const ModelSource& source, const ModelInfo& model, std::string_view dtype,
                                std::string_view kv_cache_dtype, std::int32_t block_size) {
  if (block_size < 1 || block_size > 256)
    return invalid_argument(concat("block-size ", block_size, " is not in 1..256"));
  const std::vector<LayerState> layers = layer_states(model.decoder);
  std::int32_t largest = 0;
  bool latent = false;
  for (const LayerState& layer : layers) {
    largest = std::max(largest, layer.head_size);
    latent = latent || layer.latent_size > 0;
  }
  PAGODA_ASSIGN_OR_RETURN(auto stored, kv_dtype(source, model, dtype, kv_cache_dtype, largest, latent));
  return KvLayout{.dtype = stored,
                  .num_layers = model.decoder.num_layers(),
                  .num_kv_heads = layers.front().num_kv_heads,
                  .head_size = layers.front().head_size,
                  .block_size = block_size,
                  .latent_size = layers.front().latent_size};
}

}  // namespace pagoda
