// OPT: layer norm, learned positions that start at row 2, biases everywhere, plain ReLU MLP. The 350m model
// normalises after each sublayer, has no final norm, and projects its smaller embedding in and out.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    layer.norm.kind = NormKind::layer;
    layer.mixer_norms = {.input = config.norm_before, .branch = false, .sum = !config.norm_before};
    layer.feed_forward_norms = layer.mixer_norms;
    layer.attention()->rope = kNoRope;
    layer.dense()->gated = false;
  }
  decoder->final_norm->kind = NormKind::layer;
  if (!config.norm_before || !config.final_norm) decoder->final_norm.reset();
  decoder->ropes.clear();
  decoder->learned_positions = true;
  decoder->position_offset = 2;
  return decoder;
}

WeightNames names(ModelFormat) {
  WeightNames names;
  names.prefix = "model.";
  names.other_prefixes = {""};
  names.token_embedding = "model.decoder.embed_tokens";
  names.position_embedding = "model.decoder.embed_positions";
  names.project_in = "model.decoder.project_in";
  names.project_out = "model.decoder.project_out";
  names.final_norm = "model.decoder.final_layer_norm";
  names.head = "lm_head";
  names.layer = "model.decoder.layers.{}.";
  names.attention_norm = "self_attn_layer_norm";
  names.query = "self_attn.q_proj";
  names.key = "self_attn.k_proj";
  names.value = "self_attn.v_proj";
  names.attention_output = "self_attn.out_proj";
  names.mlp_norm = "final_layer_norm";
  names.up = "fc1";
  names.down = "fc2";
  return names;
}

}  // namespace

const Architecture kOpt = {"opt", describe, names};

}  // namespace pagoda
