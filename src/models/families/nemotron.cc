// Nemotron 3, 4 and Minitron: Llama with layer norms and a plain MLP with squared ReLU.
#include "models/reading.h"

namespace pagoda::nemotron {

extern const Family family = {
    .configs = {{"NemotronForCausalLM", "nemotron",
                 R"({"vocab_size":256000,"hidden_size":6144,"intermediate_size":24576,
                     "num_attention_heads":48,"max_position_embeddings":4096,"bos_token_id":2,
                     "eos_token_id":3,"partial_rotary_factor":0.5,"hidden_act":"relu2","norm_eps":1e-5})",
                 [](Hyperparameters&, ModelInfo& model) { offset_norms(model.decoder); }}},
    .ggufs = {{"nemotron", {.activation = "relu2", .layer_norm = true}}},
    .shape = plain_layer_norm_shape,
    .row = {.name = "Nemotron 3, 4, Minitron (dense)",
            .differs = "layer norms, squared ReLU, RoPE on half of each head",
            .size = "Minitron 4B",
            .config = R"({"model_type":"nemotron","hidden_size":3072,"num_attention_heads":24,
                          "num_key_value_heads":8})"}};

}  // namespace pagoda::nemotron
