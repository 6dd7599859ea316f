// EXAONE 3 and 3.5: Llama under names of its own.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_exaone(Hyperparameters& h, ModelInfo& model) {
  const bool written = h.find("intermediate_size") != nullptr && h.integer("intermediate_size", 0) != 0;
  read_common(h,
              {.vocab_size = 102400,
               .hidden_size = 2048,
               .num_layers = h.integer("num_layers", 32),
               .bos = 0,
               .eos = 2,
               .tied = true,
               .eps_name = "layer_norm_epsilon",
               .activation_name = "activation_function"},
              model);
  if (!written) set_intermediate_size(times(4, model.decoder.hidden_size), model);
}

}  // namespace

PAGODA_FAMILY(exaone) = {
    .configs = {{"ExaoneForCausalLM", "exaone", {}, read_exaone, Reads::all}},
    .ggufs = {{"exaone"}},
    .folder_names =
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
            .differs = "other names",
            .checked = "transformers' Llama on the same numbers",
            .size = "7.8B",
            .config = R"({"model_type":"exaone","hidden_size":4096,"num_key_value_heads":8})"}};

}  // namespace pagoda
