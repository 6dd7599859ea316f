// Phi-1, 1.5 and 2: layer norms, one for both halves, which see the same; a plain MLP of GELU; biases, of the
// head too.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) {
    names.fused_qkv = "attn_qkv";  // in older files
    return names;
  }
  names.final_norm = "model.final_layernorm";
  names.mlp_norm = "";
  names.attention_output = "self_attn.dense";
  names.up = "mlp.fc1";
  names.down = "mlp.fc2";
  return names;
}

}  // namespace

const Architecture kPhi2 = {"phi2", plain_layer_norm_description, names};

}  // namespace pagoda
