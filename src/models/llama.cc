// Llama: RMS norm, rotary positions, grouped-query attention, gated SiLU. Its weight names are also those of
// Mistral, Qwen2 and Qwen3.
#include "models/architecture.h"

namespace pagoda {

namespace {

// Of all families. Old files have a tensor for each expert.
std::vector<ExpertNames> gguf_expert_names() {
  const ExpertNames all = {.router = "ffn_gate_inp",
                           .correction = "exp_probs_b.bias",
                           .gate = "ffn_gate_exps",
                           .up = "ffn_up_exps",
                           .down = "ffn_down_exps",
                           .shared_gate = "ffn_gate_shexp",
                           .shared_up = "ffn_up_shexp",
                           .shared_down = "ffn_down_shexp",
                           .shared_router = "ffn_gate_inp_shexp"};
  ExpertNames joined = all, each = all;
  joined.gate = joined.up = "";
  joined.gate_up = "ffn_gate_up_exps";
  each.gate = "ffn_gate.{}";
  each.up = "ffn_up.{}";
  each.down = "ffn_down.{}";
  return {all, joined, each};
}

}  // namespace

WeightNames llama_names(ModelFormat format) {
  if (format == ModelFormat::gguf) {
    return {.token_embedding = "token_embd",
            .final_norm = "output_norm",
            .head = "output",
            .rope_factors = "rope_freqs.weight",
            .rope_factors_short = "rope_factors_short.weight",
            .rope_factors_long = "rope_factors_long.weight",
            .of_other_heads = {"cls.weight", "cls.bias", "cls.norm.weight", "cls.output.weight",
                               "cls.output.bias", "dense_2.weight", "dense_2.bias", "dense_3.weight",
                               "dense_3.bias"},
            .layer = "blk.{}.",
            .attention_norm = "attn_norm",
            .mlp_norm = "ffn_norm",
            .query = "attn_q",
            .key = "attn_k",
            .value = "attn_v",
            .attention_output = "attn_output",
            .query_norm = "attn_q_norm",
            .key_norm = "attn_k_norm",
            .fused_qkv = "attn_qkv",
            .gate = "ffn_gate",
            .up = "ffn_up",
            .down = "ffn_down",
            .experts = gguf_expert_names()};
  }
  return {.prefix = "model.",
          .other_prefixes = {""},
          .token_embedding = "model.embed_tokens",
          .final_norm = "model.norm",
          .head = "lm_head",
          .of_other_heads = {"score.weight", "score.bias"},
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
