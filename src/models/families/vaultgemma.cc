// VaultGemma: Gemma 2 without the norms after each sublayer.
#include "models/reading.h"

namespace pagoda::vaultgemma {

void read_vaultgemma(Hyperparameters& h, ModelInfo& model) {
  offset_norms(model.decoder);
  read_query_scale(h, model.decoder);
  cap_attention(h.nullable_number("attn_logit_softcapping", 0), model.decoder);
  model.decoder.logit_softcap = h.nullable_number("final_logit_softcapping", 0);
  read_window_pattern(h, 2, model);
}

extern const Family family = {
    .architecture = "vaultgemma",
    .configs = {{"VaultGemmaForCausalLM", "vaultgemma",
                 R"({"vocab_size":256000,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
                     "num_attention_heads":8,"max_position_embeddings":8192,"num_key_value_heads":4,
                     "rms_norm_eps":1e-6,"bos_token_id":2,"eos_token_id":1,"pad_token_id":0,
                     "tie_word_embeddings":true,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh",
                     "attn_logit_softcapping":50,"final_logit_softcapping":30,"sliding_window":4096})",
                 read_vaultgemma}},
    .shape = scale_embedding,
    .names = [](WeightNames& names) { names.mlp_norm = "pre_feedforward_layernorm"; },
    .row = {.name = "VaultGemma 1B",
            .differs = "Gemma 2 without the norms after each sublayer",
            .size = "1B",
            .config = R"({"model_type":"vaultgemma","hidden_size":1152,"intermediate_size":6912,
                          "num_attention_heads":4,"num_key_value_heads":4})"}};

}  // namespace pagoda::vaultgemma
