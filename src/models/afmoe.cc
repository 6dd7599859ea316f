// AFMoE (Arcee's Trinity): a scaled embedding, norms on both sides of each half, of every query and key head,
// windows, which alone rotate, mixtures behind dense layers, and what is attended scaled by the sigmoid of a
// matrix of its own. Laguna (Poolside): the same gate by softplus, of each head or element, and numbers of
// heads by layer.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> gated(const ModelConfig& config, OutputGate gate) {
  auto decoder = qwen3_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.attention()->output_gate = gate;
  return decoder;
}

Result<DecoderConfig> describe_afmoe(const ModelConfig& config) {
  auto decoder = gated(config, OutputGate::sigmoid);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers)
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
  return decoder;
}

Result<DecoderConfig> describe_laguna(const ModelConfig& config) {
  return gated(config, config.head_gates ? OutputGate::softplus_of_head : OutputGate::softplus);
}

WeightNames afmoe_names(ModelFormat format) {
  WeightNames names = gemma2_names(format);
  names.output_gate = format == ModelFormat::gguf ? "attn_gate" : "self_attn.gate_proj";
  if (format == ModelFormat::gguf) return names;
  names.mlp_norm = "pre_mlp_layernorm";
  names.mlp_branch_norm = "post_mlp_layernorm";
  names.experts = hf_expert_names("mlp", "shared_experts");
  for (ExpertNames& form : names.experts) {
    form.router = "mlp.router.gate";
    form.correction = "mlp.expert_bias";
  }
  return names;
}

WeightNames laguna_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  names.output_gate = format == ModelFormat::gguf ? "attn_gate" : "self_attn.g_proj";
  if (format == ModelFormat::gguf) return names;
  names.experts = hf_expert_names("mlp", "shared_expert");
  for (ExpertNames& form : names.experts) form.correction = "mlp.experts.e_score_correction_bias";
  return names;
}

}  // namespace

const Architecture kAfmoe = {"afmoe", describe_afmoe, afmoe_names};
const Architecture kLaguna = {"laguna", describe_laguna, laguna_names};

}  // namespace pagoda
