// Latent attention: DeepSeek-V2 and V3, GLM-4.7-Flash, MiniCPM 3.
#include <algorithm>
#include <cmath>

#include "models/reading.h"

namespace pagoda {
namespace {

// Nonsense is refused later, but must not overflow before.
std::int32_t size_of(Hyperparameters& h, std::string_view name, std::int32_t otherwise) {
  return std::clamp(h.integer(name, otherwise), -1, 1 << 20);
}

// A stretched rotation scales the products of queries and rows, too, by whatever rule.
float stretched_scale(Hyperparameters& h, const ModelConfig& config) {
  const json::object* object = h.object("rope_scaling");
  if (object == nullptr || object->empty()) object = h.object("rope_parameters");
  const float plain = 1 / std::sqrt(static_cast<float>(std::max(config.head_size, 1)));
  if (object == nullptr) return plain;
  Hyperparameters rope(*object, h.shared_status());
  if (rope.string("rope_type", rope.string("type", "default")) == "default") return plain;
  const float scale = yarn_scale(rope.number("factor", config.rope_factor), rope.number("mscale_all_dim", 0));
  return plain * scale * scale;
}

}  // namespace

// The rest is known.
void read_latent(Hyperparameters& h, const LatentConfig& absent, ModelConfig& config) {
  LatentConfig& latent = config.latent;
  latent.rank = size_of(h, "kv_lora_rank", absent.rank);
  if (latent.rank < 1) return h.fail("kv_lora_rank", "a positive integer");
  latent.query_rank = size_of(h, "q_lora_rank", h.written("q_lora_rank") ? 0 : absent.query_rank);
  latent.nope_size = size_of(h, "qk_nope_head_dim", absent.nope_size);
  latent.rope_size = size_of(h, "qk_rope_head_dim", absent.rope_size);
  latent.value_size = size_of(h, "v_head_dim", absent.value_size);
  config.head_size = latent.nope_size + latent.rope_size;
  config.rotary_size = latent.rope_size;
  config.num_kv_heads = 1;
  config.attention_scale = stretched_scale(h, config);
}

// key_length is that of a head, or in newer files of the row that is kept, and then that of a head is apart.
void read_gguf_latent(Hyperparameters& h, ModelConfig& config) {
  LatentConfig& latent = config.latent;
  const auto size = [&](std::string_view name, std::optional<std::int32_t> otherwise) {
    return std::clamp(h.integer(name, otherwise), -1, 1 << 20);
  };
  latent.rank = size("attention.kv_lora_rank", std::nullopt);
  if (latent.rank < 1) return h.fail("attention.kv_lora_rank", "positive");
  latent.query_rank = size("attention.q_lora_rank", 0);
  latent.rope_size = std::clamp(config.rotary_size, -1, 1 << 20);
  config.head_size = size("attention.key_length_mla", std::clamp(config.head_size, -1, 1 << 20));
  latent.nope_size = config.head_size - latent.rope_size;
  latent.value_size =
      h.written("attention.value_length_mla")
          ? size("attention.value_length_mla", std::nullopt)
          : size("attention.value_length", config.num_heads > 0 ? config.hidden_size / config.num_heads : 0);
  config.num_kv_heads = 1;
}

Result<DecoderConfig> latent_description(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  const LatentConfig& latent = config.latent;
  for (LayerConfig& layer : decoder->layers) {
    const float scale = layer.attention()->scale;
    layer.mixer = LatentAttentionConfig{.num_heads = config.num_heads,
                                        .query_rank = latent.query_rank,
                                        .latent_size = latent.rank,
                                        .nope_size = latent.nope_size,
                                        .rope_size = latent.rope_size,
                                        .value_size = latent.value_size,
                                        .scale = scale,
                                        .norm_eps = latent.norm_eps};
  }
  return decoder;
}

WeightNames latent_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) {
    names.query_a = "attn_q_a";
    names.query_a_norm = "attn_q_a_norm";
    names.query_b = "attn_q_b";
    names.kv_a = "attn_kv_a_mqa";
    names.kv_a_norm = "attn_kv_a_norm";
    names.kv_b = "attn_kv_b";
    names.key_b = "attn_k_b";
    names.value_b = "attn_v_b";
    return names;
  }
  names.query_a = "self_attn.q_a_proj";
  names.query_a_norm = "self_attn.q_a_layernorm";
  names.query_b = "self_attn.q_b_proj";
  names.kv_a = "self_attn.kv_a_proj_with_mqa";
  names.kv_a_norm = "self_attn.kv_a_layernorm";
  names.kv_b = "self_attn.kv_b_proj";
  names.experts = hf_expert_names("mlp", "shared_experts");
  return names;
}

}  // namespace pagoda
