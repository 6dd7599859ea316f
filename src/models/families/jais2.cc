// Jais 2: Llama with layer norms, biases and a plain MLP with squared ReLU.
#include "models/reading.h"

namespace pagoda::jais2 {

extern const Family family = {
    .configs = {{"Jais2ForCausalLM", "jais2",
                 R"({"vocab_size":150272,"hidden_size":3328,"intermediate_size":26624,
                     "num_attention_heads":26,"max_position_embeddings":8192,
                     "bos_token_id":0,"eos_token_id":150024,"hidden_act":"relu2",
                     "layer_norm_eps":1e-5})"}},
    .ggufs = {{"jais2", {.activation = "relu2", .layer_norm = true}}},
    .shape = plain_layer_norm_shape,
    .row = {.name = "Jais 2: 8B, 70B",
            .differs = "layer norms, biases, plain MLP of squared ReLU",
            .size = "8B"}};

}  // namespace pagoda::jais2
