// Families with layer norms that are Llama in most else: StarCoder 2 (plain MLP of GELU), StableLM (gated),
// Nemotron (plain MLP of squared ReLU).
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames starcoder2_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  return names;
}

WeightNames stablelm_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.query_norm = "self_attn.q_layernorm.norms.{}";
  names.key_norm = "self_attn.k_layernorm.norms.{}";
  return names;
}

}  // namespace

const Architecture kStarcoder2 = {"starcoder2", plain_layer_norm_description, starcoder2_names};
const Architecture kStableLm = {"stablelm", each_head_description, stablelm_names};
const Architecture kNemotron = {"nemotron", plain_layer_norm_description, llama_names};

}  // namespace pagoda
