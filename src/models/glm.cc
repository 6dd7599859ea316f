// GLM-4 9B: Llama with biases, adjacent pairs in half of each head, gate and up in one matrix. GLM-4-0414 has
// norms on both sides of each half, too.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe_glm4(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers)
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
  return decoder;
}

WeightNames glm_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  names.gate = names.up = "";
  names.fused_gate_up = format == ModelFormat::gguf ? "ffn_up" : "mlp.gate_up_proj";
  return names;
}

WeightNames glm4_names(ModelFormat format) {
  WeightNames names = glm_names(format);
  const bool gguf = format == ModelFormat::gguf;
  names.attention_branch_norm = gguf ? "post_attention_norm" : "post_self_attn_layernorm";
  names.mlp_branch_norm = gguf ? "post_ffw_norm" : "post_mlp_layernorm";
  return names;
}

}  // namespace

const Architecture kGlm = {"glm", common_description, glm_names};
const Architecture kChatGlm = {"chatglm", common_description, glm_names};  // as GGUF calls it
const Architecture kGlm4 = {"glm4", describe_glm4, glm4_names};

}  // namespace pagoda
