// Phi-3 and Phi-4: Llama with query, key and value in one matrix, and gate and up in another.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  const bool gguf = format == ModelFormat::gguf;
  names.query = names.key = names.value = names.gate = names.up = "";
  names.fused_qkv = gguf ? "attn_qkv" : "self_attn.qkv_proj";
  names.fused_gate_up = gguf ? "ffn_up" : "mlp.gate_up_proj";
  return names;
}

}  // namespace

const Architecture kPhi3 = {"phi3", common_description, names};

}  // namespace pagoda
