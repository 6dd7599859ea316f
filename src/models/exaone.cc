// EXAONE 3 and 3.5: Llama under names of its own.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.prefix = "transformer.";
  names.other_prefixes = {""};
  names.token_embedding = "transformer.wte";
  names.final_norm = "transformer.ln_f";
  names.layer = "transformer.h.{}.";
  names.attention_norm = "ln_1";
  names.mlp_norm = "ln_2";
  names.query = "attn.attention.q_proj";
  names.key = "attn.attention.k_proj";
  names.value = "attn.attention.v_proj";
  names.attention_output = "attn.attention.out_proj";
  names.gate = "mlp.c_fc_0";
  names.up = "mlp.c_fc_1";
  names.down = "mlp.c_proj";
  return names;
}

}  // namespace

const Architecture kExaone = {"exaone", common_description, names};

}  // namespace pagoda
