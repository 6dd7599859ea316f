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

WeightNames llama_names(bool gguf) {
  WeightNames names = {.token_embedding = gguf ? "token_embd" : "model.embed_tokens",
                       .final_norm = gguf ? "output_norm" : "model.norm",
                       .head = gguf ? "output" : "lm_head",
                       .layer = gguf ? "blk.{}." : "model.layers.{}.",
                       .attention_norm = gguf ? "attn_norm" : "input_layernorm",
                       .mlp_norm = gguf ? "ffn_norm" : "post_attention_layernorm",
                       .query = gguf ? "attn_q" : "self_attn.q_proj",
                       .key = gguf ? "attn_k" : "self_attn.k_proj",
                       .value = gguf ? "attn_v" : "self_attn.v_proj",
                       .attention_output = gguf ? "attn_output" : "self_attn.o_proj",
                       .query_norm = gguf ? "attn_q_norm" : "self_attn.q_norm",
                       .key_norm = gguf ? "attn_k_norm" : "self_attn.k_norm",
                       .gate = gguf ? "ffn_gate" : "mlp.gate_proj",
                       .up = gguf ? "ffn_up" : "mlp.up_proj",
                       .down = gguf ? "ffn_down" : "mlp.down_proj"};
  if (gguf) {
    names.rope_factors = "rope_freqs.weight";
    names.rope_factors_short = "rope_factors_short.weight";
    names.rope_factors_long = "rope_factors_long.weight";
    names.of_other_heads = {"cls.weight",        "cls.bias",        "cls.norm.weight",
                            "cls.output.weight", "cls.output.bias", "dense_2.weight",
                            "dense_2.bias",      "dense_3.weight",  "dense_3.bias"};
    names.fused_qkv = "attn_qkv";
    names.experts = gguf_expert_names();
  } else {
    names.prefix = "model.";
    names.other_prefixes = {""};
    names.of_other_heads = {"score.weight", "score.bias"};
  }
  return names;
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
  const ExpertNames switched = mlx_experts(each, mixture + "switch_mlp"),
                    apart = mlx_experts(each, mixture + "experts");
  return {each, switched, apart, blocks, all};
}

ExpertNames mlx_experts(ExpertNames names, const std::string& place) {
  names.gate = place + ".gate_proj";
  names.up = place + ".up_proj";
  names.down = place + ".down_proj";
  names.gate_up = "";
  names.weight = ".weight";
  names.bias = ".bias";
  names.transposed = names.interleaved = names.joined = names.down_transposed = false;
  return names;
}

void gemma2_names(WeightNames& names, bool gguf) {
  names.attention_branch_norm = gguf ? "post_attention_norm" : "post_attention_layernorm";
  names.mlp_branch_norm = gguf ? "post_ffw_norm" : "post_feedforward_layernorm";
  if (!gguf) names.mlp_norm = "pre_feedforward_layernorm";
}

void post_norm_names(WeightNames& names, bool gguf) {
  gemma2_names(names, gguf);
  names.attention_norm = names.mlp_norm = "";
}

void layer_input_names(WeightNames& names, bool gguf) {
  gemma2_names(names, gguf);
  names.input_table = gguf ? "per_layer_token_embd" : "model.embed_tokens_per_layer";
  names.input_projection = gguf ? "per_layer_model_proj" : "model.per_layer_model_projection";
  names.input_norm = gguf ? "per_layer_proj_norm" : "model.per_layer_projection_norm";
  names.input_gate = gguf ? "inp_gate" : "per_layer_input_gate";
  names.input_output = gguf ? "proj" : "per_layer_projection";
  names.input_branch_norm = gguf ? "post_norm" : "post_per_layer_input_norm";
}

void hunyuan_names(WeightNames& names, bool gguf) {
  if (gguf) return;
  names.query_norm = "self_attn.query_layernorm";
  names.key_norm = "self_attn.key_layernorm";
}

std::vector<ExpertNames> granitemoe_experts() {
  const ExpertNames joined = {.router = "block_sparse_moe.router.layer",
                              .down = "block_sparse_moe.output_linear",
                              .gate_up = "block_sparse_moe.input_linear",
                              .shared_down = "shared_mlp.output_linear",
                              .shared_gate_up = "shared_mlp.input_linear"};
  return {joined, mlx_experts(joined, "block_sparse_moe.switch_mlp")};
}

std::vector<ExpertNames> mixtral_experts() {
  std::vector<ExpertNames> forms = hf_expert_names({});
  const ExpertNames old = {.router = "block_sparse_moe.gate",
                           .gate = "block_sparse_moe.experts.{}.w1",
                           .up = "block_sparse_moe.experts.{}.w3",
                           .down = "block_sparse_moe.experts.{}.w2"};
  forms.insert(forms.begin(), old);
  forms.push_back(mlx_experts(old, "block_sparse_moe.switch_mlp"));
  return forms;
}

void lfm_names(WeightNames& names, bool gguf) {
  names.final_norm = gguf ? "token_embd_norm" : "model.embedding_norm";
  names.conv_in = gguf ? "shortconv.in_proj" : "conv.in_proj";
  names.conv = gguf ? "shortconv.conv" : "conv.conv";
  names.conv_out = gguf ? "shortconv.out_proj" : "conv.out_proj";
  if (gguf) return;
  names.attention_norm = "operator_norm";
  names.mlp_norm = "ffn_norm";
  names.gate = "feed_forward.w1";
  names.up = "feed_forward.w3";
  names.down = "feed_forward.w2";
}

void glm_names(WeightNames& names, bool gguf) {
  names.gate = names.up = "";
  names.fused_gate_up = gguf ? "ffn_up" : "mlp.gate_up_proj";
}

// Folders have its matrices as Conv1D, [in, out].
void gpt2_names(WeightNames& names, bool gguf) {
  if (gguf) {
    names.position_embedding = "position_embd";
    return fused_gguf_names(names);
  }
  names = {.prefix = "transformer.",
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

// Folders have the rows of queries, keys and values by group.
void bloom_names(WeightNames& names, bool gguf) {
  if (gguf) {
    names.embedding_norm = "token_embd_norm";
    return fused_gguf_names(names);
  }
  names = {.prefix = "transformer.",
           .other_prefixes = {""},
           .token_embedding = "transformer.word_embeddings",
           .embedding_norm = "transformer.word_embeddings_layernorm",
           .final_norm = "transformer.ln_f",
           .head = "lm_head",
           .layer = "transformer.h.{}.",
           .attention_norm = "input_layernorm",
           .mlp_norm = "post_attention_layernorm",
           .attention_output = "self_attention.dense",
           .fused_qkv = "self_attention.query_key_value",
           .qkv_by_group = true,
           .up = "mlp.dense_h_to_4h",
           .down = "mlp.dense_4h_to_h"};
}

void fused_gguf_names(WeightNames& names) { names.query = names.key = names.value = names.gate = ""; }

// BERT and its relatives.
void encoder_gguf_names(WeightNames& names) {
  names.position_embedding = "position_embd";
  names.type_embedding = "token_types";
  names.embedding_norm = "token_embd_norm";
  names.attention_norm = "attn_output_norm";
  names.mlp_norm = "layer_output_norm";
  names.rope_factors = "";
}

void bert_names(WeightNames& names, bool gguf) {
  if (gguf) {
    names.gate = names.fused_qkv = "";
    return encoder_gguf_names(names);
  }
  std::vector<std::string> others;
  for (const char* name :
       {"bert.pooler.dense", "classifier", "classifier.dense", "classifier.out_proj", "cls.predictions",
        "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder",
        "cls.seq_relationship", "lm_head", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"})
    for (const char* part : {".weight", ".bias"}) others.push_back(std::string(name) + part);
  names = {.prefix = "bert.",
           .other_prefixes = {"", "roberta."},
           .token_embedding = "bert.embeddings.word_embeddings",
           .position_embedding = "bert.embeddings.position_embeddings",
           .type_embedding = "bert.embeddings.token_type_embeddings",
           .embedding_norm = "bert.embeddings.LayerNorm",
           .of_other_heads = std::move(others),
           .layer = "bert.encoder.layer.{}.",
           .attention_norm = "attention.output.LayerNorm",
           .mlp_norm = "output.LayerNorm",
           .query = "attention.self.query",
           .key = "attention.self.key",
           .value = "attention.self.value",
           .attention_output = "attention.output.dense",
           .up = "intermediate.dense",
           .down = "output.dense"};
}

}  // namespace pagoda
