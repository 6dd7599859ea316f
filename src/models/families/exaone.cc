// EXAONE 3 and 3.5: Llama with its own tensor names.
#include "models/reading.h"

namespace pagoda::exaone {

void read(Hyperparameters&, ModelInfo& model) {
  if (model.intermediate_size == 0) set_intermediate_size(times(4, model.decoder.hidden_size), model);
}

extern const Family family = {
    .configs =
        {{"ExaoneForCausalLM", "exaone",
          R"({"vocab_size":102400,"hidden_size":2048,"num_layers":32,"num_hidden_layers":32,"bos_token_id":0,
              "eos_token_id":2,"tie_word_embeddings":true,"layer_norm_epsilon":1e-5,
              "activation_function":"silu"})",
          read}},
    .ggufs = {{"exaone"}},
    .names =
        [](WeightNames& names) {
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
        },
    .row = {.name = "EXAONE 3, 3.5: 2.4B, 7.8B, 32B",
            .differs = "other tensor names",
            .checked = "transformers' Llama on the same numbers",
            .size = "7.8B",
            .config = R"({"model_type":"exaone","hidden_size":4096,"num_key_value_heads":8})"}};

}  // namespace pagoda::exaone
