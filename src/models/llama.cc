// Llama: RMS norm, rotary positions, grouped-query attention, gated SiLU. Its weight names are also those of
// Mistral, Qwen2 and Qwen3.
#include "models/architecture.h"

namespace pagoda {

WeightNames llama_names(ModelFormat format) {
  if (format == ModelFormat::gguf) {
    return {.optional_prefix = "",
            .token_embedding = "token_embd",
            .position_embedding = "",
            .project_in = "",
            .project_out = "",
            .final_norm = "output_norm",
            .head = "output",
            .rope_factors = "rope_freqs.weight",
            .layer = "blk.{}.",
            .attention_norm = "attn_norm",
            .query = "attn_q",
            .key = "attn_k",
            .value = "attn_v",
            .attention_output = "attn_output",
            .query_norm = "attn_q_norm",
            .key_norm = "attn_k_norm",
            .fused_qkv = "",
            .mlp_norm = "ffn_norm",
            .gate = "ffn_gate",
            .up = "ffn_up",
            .down = "ffn_down"};
  }
  return {.optional_prefix = "model.",
          .token_embedding = "model.embed_tokens",
          .position_embedding = "",
          .project_in = "",
          .project_out = "",
          .final_norm = "model.norm",
          .head = "lm_head",
          .rope_factors = "",
          .layer = "model.layers.{}.",
          .attention_norm = "input_layernorm",
          .query = "self_attn.q_proj",
          .key = "self_attn.k_proj",
          .value = "self_attn.v_proj",
          .attention_output = "self_attn.o_proj",
          .query_norm = "self_attn.q_norm",
          .key_norm = "self_attn.k_norm",
          .fused_qkv = "",
          .mlp_norm = "post_attention_layernorm",
          .gate = "mlp.gate_proj",
          .up = "mlp.up_proj",
          .down = "mlp.down_proj"};
}

namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  DecoderConfig decoder = common_description(config);
  auto activation = activation_named(config.activation);
  if (!activation) return activation.error();
  decoder.activation = *activation;
  return decoder;
}

}  // namespace

const Architecture kLlama = {"llama", describe, llama_names};

}  // namespace pagoda
