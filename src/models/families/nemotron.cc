// Nemotron 3, 4 and Minitron: Llama with layer norms and a plain MLP of squared ReLU.
#include "models/reading.h"

namespace pagoda {

PAGODA_FAMILY(nemotron) = {
    .configs = {{"NemotronForCausalLM",
                 "nemotron",
                 {.vocab_size = 256000,
                  .hidden_size = 6144,
                  .intermediate_size = 24576,
                  .num_heads = 48,
                  .max_positions = 4096,
                  .bos = 2,
                  .eos = 3,
                  .partial = 0.5f,
                  .eps_name = "norm_eps",
                  .activation = "relu2"},
                 [](Hyperparameters&, ModelInfo& model) { offset_norms(model.decoder); }}},
    .ggufs = {{"nemotron", {.activation = "relu2", .layer_norm = true}}},
    .shape = plain_layer_norm_shape,
    .row = {.name = "Nemotron 3, 4, Minitron (dense)",
            .differs = "layer norms, squared ReLU, half of each head rotates",
            .size = "Minitron 4B",
            .config = R"({"model_type":"nemotron","hidden_size":3072,"num_attention_heads":24,
                       "num_key_value_heads":8})"}};

}  // namespace pagoda
