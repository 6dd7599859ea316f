// GPT-2: layer norm, learned positions, one fused and biased query-key-value matrix, plain MLP. Hugging Face
// stores its matrices as Conv1D, [in, out]; GGUF as all others.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    layer.norm.kind = NormKind::layer;
    layer.attention()->rope = kNoRope;
    layer.dense()->gated = false;
  }
  decoder->final_norm->kind = NormKind::layer;
  decoder->ropes.clear();
  decoder->learned_positions = true;
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names;
  if (format == ModelFormat::gguf) {
    names = llama_names(format);
    names.position_embedding = "position_embd";
    names.query = names.key = names.value = names.rope_factors = names.gate = "";
    names.fused_qkv = "attn_qkv";
    return names;
  }
  names.prefix = "transformer.";
  names.other_prefixes = {""};
  names.token_embedding = "transformer.wte";
  names.position_embedding = "transformer.wpe";
  names.final_norm = "transformer.ln_f";
  names.head = "lm_head";
  names.layer = "transformer.h.{}.";
  names.attention_norm = "ln_1";
  names.fused_qkv = "attn.c_attn";
  names.attention_output = "attn.c_proj";
  names.mlp_norm = "ln_2";
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  names.transposed = true;
  return names;
}

}  // namespace

const Architecture kGpt2 = {"gpt2", describe, names};

}  // namespace pagoda
