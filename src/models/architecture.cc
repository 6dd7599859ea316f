#include "models/architecture.h"

#include <array>

#include "base/strings.h"

namespace pagoda {

std::span<const Architecture> architectures() {
  static const std::array<Architecture, 6> all = {kGpt2, kLlama, kMistral, kOpt, kQwen2, kQwen3};
  return all;
}

Result<const Architecture*> find_architecture(std::string_view name) {
  std::string supported;
  for (const Architecture& architecture : architectures()) {
    if (architecture.name == name) return &architecture;
    supported += supported.empty() ? "" : ", ";
    supported += architecture.name;
  }
  return unimplemented(concat("model architecture '", name, "' is not supported; supported are ", supported));
}

DecoderConfig common_description(const ModelConfig& config) {
  DecoderConfig decoder;
  decoder.vocab_size = config.vocab_size;
  decoder.hidden_size = config.hidden_size;
  decoder.embedding_size = config.embedding_size > 0 ? config.embedding_size : config.hidden_size;
  decoder.intermediate_size = config.intermediate_size;
  decoder.num_layers = config.num_layers;
  decoder.num_heads = config.num_heads;
  decoder.num_kv_heads = config.num_kv_heads > 0 ? config.num_kv_heads : config.num_heads;
  decoder.head_size = config.head_size;
  decoder.norm_eps = config.norm_eps;
  decoder.max_positions = config.max_positions;
  decoder.interleaved_rows = config.rope_interleaved_rows;
  decoder.tied_head = config.tie_embeddings;
  decoder.rope = {.theta = config.rope_theta,
                  .rotary_size = config.rotary_size > 0 ? config.rotary_size : config.head_size,
                  .scaling = config.rope_scaling,
                  .factor = config.rope_factor,
                  .low_freq_factor = config.rope_low_freq_factor,
                  .high_freq_factor = config.rope_high_freq_factor,
                  .original_positions = config.rope_original_positions};
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    decoder.sliding_window.push_back(layer >= config.first_window_layer ? config.sliding_window : 0);
  }
  return decoder;
}

Result<Activation> activation_named(std::string_view name) {
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "relu") return Activation::relu;
  if (name == "gelu") return Activation::gelu_erf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  return unimplemented(
      concat("activation '", name,
             "' is not supported; supported are silu, relu, gelu, gelu_new, gelu_pytorch_tanh"));
}

}  // namespace pagoda
