// StarCoder 2: Llama with layer norms, biases and plain GELU MLPs.
#include "models/reading.h"

namespace pagoda::starcoder2 {

extern const Family family = {
    .configs = {{"Starcoder2ForCausalLM", "starcoder2",
                 R"({"vocab_size":49152,"hidden_size":3072,"intermediate_size":12288,"num_hidden_layers":30,
                     "num_attention_heads":24,"num_key_value_heads":2,"max_position_embeddings":4096,
                     "bos_token_id":50256,"eos_token_id":50256,"tie_word_embeddings":true,
                     "hidden_act":"gelu_pytorch_tanh","norm_epsilon":1e-5})",
                 [](Hyperparameters& h, ModelInfo& model) {
                   use_windows(h, h.integer("sliding_window", 0), {}, model);
                 }}},
    .ggufs = {{"starcoder2", {.activation = "gelu_new", .layer_norm = true}}},
    .shape = plain_layer_norm_shape,
    .names =
        [](WeightNames& names) {
          names.up = "mlp.c_fc";
          names.down = "mlp.c_proj";
        },
    .row = {.name = "StarCoder 2: 3B, 7B, 15B",
            .differs = "layer norms, biases, plain MLP, window",
            .size = "7B",
            .config = R"({"model_type":"starcoder2","hidden_size":4608,"num_hidden_layers":32,
                          "num_attention_heads":36,"num_key_value_heads":4,"max_position_embeddings":16384,
                          "sliding_window":4096})"}};

}  // namespace pagoda::starcoder2
