// Llama: RMS norm, rotary positions, grouped-query attention, gated SiLU. Its weight names are also those of
// Mistral, Qwen2 and Qwen3.
#include "models/architecture.h"

namespace pagoda {

WeightNames llama_names(ModelFormat format) {
  if (format == ModelFormat::gguf) {
    return {.token_embedding = "token_embd",
            .final_norm = "output_norm",
            .head = "output",
            .rope_factors = "rope_freqs.weight",
            .layer = "blk.{}.",
            .attention_norm = "attn_norm",
            .mlp_norm = "ffn_norm",
            .query = "attn_q",
            .key = "attn_k",
            .value = "attn_v",
            .attention_output = "attn_output",
            .query_norm = "attn_q_norm",
            .key_norm = "attn_k_norm",
            .gate = "ffn_gate",
            .up = "ffn_up",
            .down = "ffn_down"};
  }
  return {.prefix = "model.",
          // Alone, or inside of a model that also sees or hears.
          .other_prefixes = {"", "model.language_model.", "language_model.model."},
          .token_embedding = "model.embed_tokens",
          .final_norm = "model.norm",
          .head = "lm_head",
          .other_head = "language_model.lm_head",
          .layer = "model.layers.{}.",
          .attention_norm = "input_layernorm",
          .mlp_norm = "post_attention_layernorm",
          .query = "self_attn.q_proj",
          .key = "self_attn.k_proj",
          .value = "self_attn.v_proj",
          .attention_output = "self_attn.o_proj",
          .query_norm = "self_attn.q_norm",
          .key_norm = "self_attn.k_norm",
          .gate = "mlp.gate_proj",
          .up = "mlp.up_proj",
          .down = "mlp.down_proj"};
}

const Architecture kLlama = {"llama", common_description, llama_names};

}  // namespace pagoda
