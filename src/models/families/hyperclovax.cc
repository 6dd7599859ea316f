// HyperCLOVA X SEED Think: Granite's scales, with the logits' as a factor, and a norm after each sublayer.
#include "models/reading.h"

namespace pagoda::hyperclovax {

void read_hyperclovax(Hyperparameters& h, ModelInfo& model) {
  DecoderConfig& decoder = model.decoder;
  decoder.embedding_scale = h.number("embedding_multiplier", 1.0f);
  decoder.logit_scale = h.number("logits_scaling", 1.0f);
  scale_residual(h.number("residual_multiplier", 1.0f), decoder);
  const float attention = h.nullable_number("attention_multiplier", 0);
  if (attention != 0) scale_attention(attention, decoder);
  if (h.boolean("use_post_norm", true)) norm_branches(decoder);
}

void hyperclovax_names(WeightNames& names) {
  names.attention_branch_norm = "post_norm1";
  names.mlp_branch_norm = "post_norm2";
}

extern const Family family = {
    .architecture = "hyperclovax",
    .configs = {{"HyperCLOVAXForCausalLM", "hyperclovax",
                 R"({"intermediate_size":11008,"rms_norm_eps":1e-6,"bos_token_id":1,"eos_token_id":2})",
                 read_hyperclovax}},
    .names = hyperclovax_names,
    .row = {.name = "HyperCLOVA X SEED Think 14B",
            .differs = "four scales, norms before and after each sublayer",
            .size = "14B",
            .config = R"({"model_type":"hyperclovax","hidden_size":6144,"num_attention_heads":48,
                          "num_key_value_heads":8,"num_hidden_layers":38,"head_dim":128})"}};

}  // namespace pagoda::hyperclovax
