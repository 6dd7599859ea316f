// Phi-1, 1.5 and 2: layer norms, one for parallel attention and feed-forward; plain GELU MLPs; biases, also
// in the head.
#include "models/reading.h"

namespace pagoda::phi {

void read_phi(Hyperparameters& h, ModelInfo& model) {
  set_parallel(model.decoder);
  h.only("qk_layernorm", false);
}

extern const Family family = {
    .configs = {{"PhiForCausalLM", "phi",
                 R"({"vocab_size":51200,"hidden_size":2048,"intermediate_size":8192,
                     "num_hidden_layers":24,"bos_token_id":1,"eos_token_id":2,
                     "partial_rotary_factor":0.5,"hidden_act":"gelu_new",
                     "layer_norm_eps":1e-5})",
                 read_phi}},
    .ggufs = {{"phi2", {.activation = "gelu_new", .layer_norm = true, .parallel = true}}},
    .shape = plain_layer_norm_shape,
    .names =
        [](WeightNames& names) {
          names.final_norm = "model.final_layernorm";
          names.mlp_norm = "";
          names.attention_output = "self_attn.dense";
          names.up = "mlp.fc1";
          names.down = "mlp.fc2";
        },
    .row = {.name = "Phi 1, 1.5, 2",
            .differs = "layer norms, parallel attention and feed-forward, biases",
            .size = "2.7B",
            .config = R"({"model_type":"phi","hidden_size":2560,"num_hidden_layers":32})"}};

}  // namespace pagoda::phi
