// Names of tensors that families share.
#include "models/reading.h"

namespace pagoda {
namespace {

// All families. Old files have a tensor for each expert.
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

std::vector<ExpertNames> hf_expert_names(const ExpertPlaces& places) {
  const std::string mixture = places.mixture + ".", shared = mixture + places.shared;
  ExpertNames each = {
      .router = places.router.empty() ? mixture + "gate" : places.router,
      .correction = places.correction.empty() ? mixture + "gate.e_score_correction_bias" : places.correction,
      .gate = mixture + "experts.{}.gate_proj",
      .up = mixture + "experts.{}.up_proj",
      .down = mixture + "experts.{}.down_proj",
      .shared_gate = shared + ".gate_proj",
      .shared_up = shared + ".up_proj",
      .shared_down = shared + ".down_proj",
      .shared_router = shared + "_gate"};
  ExpertNames all = each;
  all.gate = all.up = "";
  all.gate_up = mixture + "experts.gate_up_proj";
  all.down = mixture + "experts.down_proj";
  all.weight = "";
  all.bias = "_bias";
  ExpertNames blocks = all;  // as transformers stores those of gpt-oss
  blocks.weight = "_blocks";
  blocks.scales = "_scales";
  return {each, blocks, all};
}

WeightNames gemma2_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) {
    names.attention_branch_norm = "post_attention_norm";
    names.mlp_branch_norm = "post_ffw_norm";
    return names;
  }
  names.attention_branch_norm = "post_attention_layernorm";
  names.mlp_norm = "pre_feedforward_layernorm";
  names.mlp_branch_norm = "post_feedforward_layernorm";
  return names;
}

WeightNames norms_behind_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  const bool gguf = format == ModelFormat::gguf;
  names.attention_norm = names.mlp_norm = "";
  names.attention_branch_norm = gguf ? "post_attention_norm" : "post_attention_layernorm";
  names.mlp_branch_norm = gguf ? "post_ffw_norm" : "post_feedforward_layernorm";
  return names;
}

WeightNames layer_input_names(ModelFormat format) {
  WeightNames names = gemma2_names(format);
  const bool gguf = format == ModelFormat::gguf;
  names.input_table = gguf ? "per_layer_token_embd" : "model.embed_tokens_per_layer";
  names.input_projection = gguf ? "per_layer_model_proj" : "model.per_layer_model_projection";
  names.input_norm = gguf ? "per_layer_proj_norm" : "model.per_layer_projection_norm";
  names.input_gate = gguf ? "inp_gate" : "per_layer_input_gate";
  names.input_output = gguf ? "proj" : "per_layer_projection";
  names.input_branch_norm = gguf ? "post_norm" : "post_per_layer_input_norm";
  return names;
}

WeightNames hunyuan_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.query_norm = "self_attn.query_layernorm";
  names.key_norm = "self_attn.key_layernorm";
  return names;
}

std::vector<ExpertNames> granitemoe_experts() {
  return {{.router = "block_sparse_moe.router.layer",
           .down = "block_sparse_moe.output_linear",
           .gate_up = "block_sparse_moe.input_linear",
           .shared_down = "shared_mlp.output_linear",
           .shared_gate_up = "shared_mlp.input_linear"}};
}

std::vector<ExpertNames> mixtral_experts() {
  std::vector<ExpertNames> forms = hf_expert_names({});
  const ExpertNames old = {.router = "block_sparse_moe.gate",
                           .gate = "block_sparse_moe.experts.{}.w1",
                           .up = "block_sparse_moe.experts.{}.w3",
                           .down = "block_sparse_moe.experts.{}.w2"};
  forms.insert(forms.begin(), old);
  return forms;
}

WeightNames glm_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  names.gate = names.up = "";
  names.fused_gate_up = format == ModelFormat::gguf ? "ffn_up" : "mlp.gate_up_proj";
  return names;
}

// Folders have its matrices as Conv1D, [in, out].
WeightNames gpt2_names(ModelFormat format) {
  if (format == ModelFormat::gguf) {
    WeightNames names = fused_gguf_names();
    names.position_embedding = "position_embd";
    names.rope_factors = "";
    return names;
  }
  return {.prefix = "transformer.",
          .other_prefixes = {""},
          .token_embedding = "transformer.wte",
          .position_embedding = "transformer.wpe",
          .final_norm = "transformer.ln_f",
          .head = "lm_head",
          .layer = "transformer.h.{}.",
          .attention_norm = "ln_1",
          .mlp_norm = "ln_2",
          .attention_output = "attn.c_proj",
          .fused_qkv = "attn.c_attn",
          .up = "mlp.c_fc",
          .down = "mlp.c_proj",
          .transposed = true};
}

WeightNames fused_gguf_names() {
  WeightNames names = llama_names(ModelFormat::gguf);
  names.query = names.key = names.value = names.gate = "";
  return names;
}

WeightNames plain_fused_gguf_names() {
  WeightNames names = llama_names(ModelFormat::gguf);
  names.embedding_norm = "token_embd_norm";
  names.query = names.key = names.value = names.gate = names.rope_factors = "";
  return names;
}

}  // namespace pagoda
