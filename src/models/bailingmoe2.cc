// Ling and Ring 2 (bailing_moe): Llama with query, key and value in one matrix, norms of every query and key
// head, heads of which a part rotates, and mixtures behind dense layers.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  names.query = names.key = names.value = "";
  names.fused_qkv = "attn_qkv";
  if (format == ModelFormat::gguf) return names;
  names.token_embedding = "model.word_embeddings";
  names.fused_qkv = "attention.query_key_value";
  names.attention_output = "attention.dense";
  names.query_norm = "attention.query_layernorm";
  names.key_norm = "attention.key_layernorm";
  names.experts = hf_expert_names("mlp", "shared_experts");
  for (ExpertNames& each : names.experts) each.correction = "mlp.gate.expert_bias";
  return names;
}

}  // namespace

const Architecture kBailingMoe2 = {"bailingmoe2", qwen3_description, names};

}  // namespace pagoda
