// Tensor names shared by families.
#include <array>

#include "models/reading.h"

namespace pagoda {
namespace {

// Old files have a tensor per expert.
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

// The last two precede every tensor name in files saved from a torch.compile or DDP wrapper.
std::span<const std::string_view> wrapper_prefixes() {
  static constexpr std::array<std::string_view, 10> kPrefixes = {"model.language_model.",
                                                                 "model.text_model.",
                                                                 "model.language.",
                                                                 "language_model.",
                                                                 "text_model.",
                                                                 "model.llm.",
                                                                 "language.",
                                                                 "llm.",
                                                                 "_orig_mod.",
                                                                 "module."};
  return kPrefixes;
}

WeightNames gguf_names() {
  return {
      .token_embedding = "token_embd",
      .position_embedding = "position_embd",
      .type_embedding = "token_types",
      .embedding_norm = "token_embd_norm",
      .final_norm = "output_norm",
      .head = "output",
      .rope_factors = "rope_freqs.weight",
      .rope_factors_short = "rope_factors_short.weight",
      .rope_factors_long = "rope_factors_long.weight",
      .of_other_heads = {"cls.weight", "cls.bias", "cls.norm.weight", "cls.output.weight", "cls.output.bias",
                         "dense_2.weight", "dense_2.bias", "dense_3.weight", "dense_3.bias"},
      .layer = "blk.{}.",
      .attention_norm = "attn_norm",
      .attention_branch_norm = "post_attention_norm",
      .mlp_norm = "ffn_norm",
      .mlp_branch_norm = "post_ffw_norm",
      .query = "attn_q",
      .key = "attn_k",
      .value = "attn_v",
      .attention_output = "attn_output",
      .query_norm = "attn_q_norm",
      .key_norm = "attn_k_norm",
      .attention_inner_norm = "attn_sub_norm",
      .mlp_inner_norm = "ffn_sub_norm",
      .fused_qkv = "attn_qkv",
      .sinks = "attn_sinks.weight",
      .output_gate = "attn_gate",
      .query_a = "attn_q_a",
      .query_a_norm = "attn_q_a_norm",
      .query_b = "attn_q_b",
      .kv_a = "attn_kv_a_mqa",
      .kv_a_norm = "attn_kv_a_norm",
      .kv_b = "attn_kv_b",
      .key_b = "attn_k_b",
      .value_b = "attn_v_b",
      .conv = "ssm_conv1d",
      .linear_attention = {.qkv = "attn_qkv",
                           .gate = "attn_gate",
                           .weight = "ssm_beta",
                           .decay = "ssm_alpha",
                           .by_key_head = "ssm_in",
                           .gates_by_key_head = "ssm_ba",
                           .in = "ssm_in",
                           .scanned = "ssm_x",
                           .step = "ssm_dt",
                           .step_norm = "ssm_dt_norm",
                           .key_norm = "ssm_b_norm",
                           .query_norm = "ssm_c_norm",
                           .rate = "ssm_a",
                           .step_bias = "ssm_dt.bias",
                           .skip = "ssm_d",
                           .norm = "ssm_norm",
                           .out = "ssm_out"},
      .gate = "ffn_gate",
      .up = "ffn_up",
      .down = "ffn_down",
      .experts = gguf_expert_names(),
      .mixture_norm = "pre_ffw_norm_2",
      .mixture_branch_norm = "post_ffw_norm_2",
      .dense_branch_norm = "post_ffw_norm_1",
      .output_scale = "layer_output_scale.weight",
      .input_table = "per_layer_token_embd",
      .input_projection = "per_layer_model_proj",
      .input_norm = "per_layer_proj_norm",
      .input_gate = "inp_gate",
      .input_output = "proj",
      .input_branch_norm = "post_norm",
      .residual_down = "laurel_l",
      .residual_up = "laurel_r",
      .residual_norm = "laurel_post_norm",
      .streams_enter = "altup_proj",
      .streams_leave = "altup_unembd_proj",
      .streams_router = "altup_router",
      .streams_router_norm = "altup_router_norm",
      .streams_predict = "altup_predict_coef",
      .streams_correct = "altup_correct_coef",
      .streams_scale = "altup_correct_scale"};
}

void post_attention_gguf_names(WeightNames& names) { names.mlp_norm = "post_attention_norm"; }

void encoder_gguf_names(WeightNames& names) {
  names.attention_norm = "attn_output_norm";
  names.mlp_norm = "layer_output_norm";
}

void lfm_gguf_names(WeightNames& names) {
  names.final_norm = "token_embd_norm";
  names.conv_in = "shortconv.in_proj";
  names.conv = "shortconv.conv";
  names.conv_out = "shortconv.out_proj";
}

WeightNames llama_names() {
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
  ExpertNames blocks = all;  // transformers' form for gpt-oss
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

void gemma2_names(WeightNames& names) {
  names.attention_branch_norm = "post_attention_layernorm";
  names.mlp_branch_norm = "post_feedforward_layernorm";
  names.mlp_norm = "pre_feedforward_layernorm";
}

void post_norm_names(WeightNames& names) {
  gemma2_names(names);
  names.attention_norm = names.mlp_norm = "";
}

void layer_input_names(WeightNames& names) {
  gemma2_names(names);
  names.input_table = "model.embed_tokens_per_layer";
  names.input_projection = "model.per_layer_model_projection";
  names.input_norm = "model.per_layer_projection_norm";
  names.input_gate = "per_layer_input_gate";
  names.input_output = "per_layer_projection";
  names.input_branch_norm = "post_per_layer_input_norm";
}

void hunyuan_names(WeightNames& names) {
  names.query_norm = "self_attn.query_layernorm";
  names.key_norm = "self_attn.key_layernorm";
}

void granite_gguf_names(WeightNames& names) { names.gate_in_up = false; }

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

void lfm_names(WeightNames& names) {
  names.final_norm = "model.embedding_norm";
  names.conv_in = "conv.in_proj";
  names.conv = "conv.conv";
  names.conv_out = "conv.out_proj";
  names.attention_norm = "operator_norm";
  names.mlp_norm = "ffn_norm";
  names.gate = "feed_forward.w1";
  names.up = "feed_forward.w3";
  names.down = "feed_forward.w2";
}

void glm_names(WeightNames& names) {
  names.gate = names.up = "";
  names.fused_gate_up = "mlp.gate_up_proj";
}

// Folders store its matrices as Conv1D, [in, out].
void gpt2_names(WeightNames& names) {
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

// In folders, rows of queries, keys and values are grouped by head.
void bloom_names(WeightNames& names) {
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

void bert_names(WeightNames& names) {
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
