// DeepSeek-V2, V3 and those built like them (Moonlight, Kimi-K2, GLM-4.7-Flash): latent attention, mixtures
// behind dense layers. MiniCPM3: the same attention with dense feed-forwards and scaled residuals.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
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

WeightNames names(ModelFormat format) {
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

}  // namespace

const Architecture kDeepSeek2 = {"deepseek2", describe, names};
const Architecture kMiniCpm3 = {"minicpm3", describe, names};

}  // namespace pagoda
