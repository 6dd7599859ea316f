// Jais 2: Llama with layer norms, biases and a plain MLP of squared ReLU.
#include "models/reading.h"

namespace pagoda {

PAGODA_FAMILY(jais2) = {.configs = {{"Jais2ForCausalLM",
                                     "jais2",
                                     {.vocab_size = 150272,
                                      .hidden_size = 3328,
                                      .intermediate_size = 26624,
                                      .num_heads = 26,
                                      .max_positions = 8192,
                                      .bos = 0,
                                      .eos = 150024,
                                      .eps_name = "layer_norm_eps",
                                      .activation = "relu2"}}},
                        .ggufs = {{"jais2", {.activation = "relu2", .layer_norm = true}}},
                        .shape = plain_layer_norm_shape,
                        .row = {.name = "Jais 2: 8B, 70B",
                                .differs = "layer norms, biases, plain MLP of squared ReLU",
                                .size = "8B",
                                .config = R"({"model_type":"jais2"})"}};

}  // namespace pagoda
