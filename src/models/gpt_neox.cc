// Families of the time of GPT-3's open relatives: layer norms, plain MLPs of GELU, halves that see the same.
// GPT-NeoX and Pythia, GPT-J, Falcon.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames fused_gguf_names() {
  WeightNames names = llama_names(ModelFormat::gguf);
  names.query = names.key = names.value = names.gate = "";
  names.fused_qkv = "attn_qkv";
  return names;
}

WeightNames neox_names(ModelFormat format) {
  if (format == ModelFormat::gguf) return fused_gguf_names();
  return {.prefix = "gpt_neox.",
          .other_prefixes = {""},
          .token_embedding = "gpt_neox.embed_in",
          .final_norm = "gpt_neox.final_layer_norm",
          .head = "embed_out",
          .other_head = "lm_head",
          .layer = "gpt_neox.layers.{}.",
          .attention_norm = "input_layernorm",
          .mlp_norm = "post_attention_layernorm",
          .attention_output = "attention.dense",
          .fused_qkv = "attention.query_key_value",
          .qkv_by_group = true,
          .up = "mlp.dense_h_to_4h",
          .down = "mlp.dense_4h_to_h"};
}

WeightNames gptj_names(ModelFormat) {
  return {.prefix = "transformer.",
          .other_prefixes = {""},
          .token_embedding = "transformer.wte",
          .final_norm = "transformer.ln_f",
          .head = "lm_head",
          .layer = "transformer.h.{}.",
          .attention_norm = "ln_1",
          .query = "attn.q_proj",
          .key = "attn.k_proj",
          .value = "attn.v_proj",
          .attention_output = "attn.out_proj",
          .up = "mlp.fc_in",
          .down = "mlp.fc_out"};
}

WeightNames falcon_names(ModelFormat format) {
  if (format == ModelFormat::gguf) {
    WeightNames names = fused_gguf_names();
    names.mlp_norm = "";
    return names;
  }
  return {.prefix = "transformer.",
          .other_prefixes = {""},
          .token_embedding = "transformer.word_embeddings",
          .final_norm = "transformer.ln_f",
          .head = "lm_head",
          .layer = "transformer.h.{}.",
          .attention_norm = "input_layernorm",
          .attention_output = "self_attention.dense",
          .fused_qkv = "self_attention.query_key_value",
          .qkv_by_group = true,
          .up = "mlp.dense_h_to_4h",
          .down = "mlp.dense_4h_to_h"};
}

WeightNames falcon_two_norms_names(ModelFormat format) {
  WeightNames names = falcon_names(format);
  const bool gguf = format == ModelFormat::gguf;
  names.attention_norm = gguf ? "attn_norm_2" : "ln_attn";
  names.mlp_norm = gguf ? "attn_norm" : "ln_mlp";
  return names;
}

}  // namespace

const Architecture kGptNeoX = {"gptneox", plain_layer_norm_description, neox_names};
const Architecture kGptJ = {"gptj", plain_layer_norm_description, gptj_names};
const Architecture kFalcon = {"falcon", plain_layer_norm_description, falcon_names};
const Architecture kFalconTwoNorms = {"falcon two norms", plain_layer_norm_description,
                                      falcon_two_norms_names};

}  // namespace pagoda
