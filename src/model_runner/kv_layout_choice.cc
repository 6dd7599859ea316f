#include "model_runner/kv_layout_choice.h"

#include <algorithm>
#include <vector>

#include "base/strings.h"
#include "kernels/linear.h"
#include "models/decoder.h"

namespace pagoda {
namespace {

// Whether matrices are computed in 8 bits; the CPU's level makes no difference to that.
bool computes_in_int8(const ModelSource& source, std::string_view dtype) {
  return std::ranges::any_of(source.tensor_names(), [&](const std::string& name) {
    const auto type = choose_linear_type(dtype, source.find(name)->dtype, CpuLevel::portable);
    return type && *type == LinearType::int8;
  });
}

Result<DType> kv_dtype(const ModelSource& source, std::string_view dtype, std::string_view kv_cache_dtype,
                       std::int32_t head_size, bool latent) {
  if (kv_cache_dtype == "auto") {
    if (dtype == "float32") return DType::f32;
    if (dtype == "float16") return DType::f16;
    return !latent && head_size <= kMaxInt8HeadSize && computes_in_int8(source, dtype) ? DType::i8
                                                                                       : DType::bf16;
  }
  if (kv_cache_dtype == "float32") return DType::f32;
  if (kv_cache_dtype == "bfloat16") return DType::bf16;
  if (kv_cache_dtype == "float16") return DType::f16;
  // One scale would be for two things of very different sizes.
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
                                 "' is not supported; use auto, float32, bfloat16, float16 or int8"));
}

}  // namespace

Result<KvLayout> plan_kv_layout(const ModelSource& source, std::string_view dtype,
                                std::string_view kv_cache_dtype, std::int32_t block_size) {
  if (block_size < 1 || block_size > 256)
    return invalid_argument(concat("block-size ", block_size, " is not in 1..256"));
  auto decoder = describe_decoder(source.config());
  if (!decoder) return decoder.error();
  const std::vector<LayerState> layers = layer_states(*decoder);
  std::int32_t largest = 0;
  bool latent = false;
  for (const LayerState& layer : layers) {
    largest = std::max(largest, layer.head_size);
    latent = latent || layer.latent_size > 0;
  }
  auto stored = kv_dtype(source, dtype, kv_cache_dtype, largest, latent);
  if (!stored) return stored.error();
  // What lies there for the length of a layer costs no memory worth saving.
  if (source.config().encoder && kv_cache_dtype == "auto" && *stored == DType::i8) stored = DType::bf16;
  return KvLayout{.dtype = *stored,
                  .num_layers = decoder->num_layers(),
                  .num_kv_heads = layers.front().num_kv_heads,
                  .head_size = layers.front().head_size,
                  .block_size = block_size,
                  .latent_size = layers.front().latent_size};
}

}  // namespace pagoda
