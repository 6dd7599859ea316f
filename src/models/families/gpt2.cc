// GPT-2: layer norms, learned positions, fused query, key and value with biases, plain MLPs. Hugging Face
// stores its matrices as Conv1D, [in, out]; GGUF stores them like all others.
#include "models/reading.h"

namespace pagoda::gpt2 {

extern const Family family = {
    .configs =
        {{"GPT2LMHeadModel", "gpt2",
          R"({"vocab_size":50257,"n_embd":768,"n_layer":12,"n_head":12,"n_positions":1024,"n_inner":null,
              "bos_token_id":50256,"eos_token_id":50256,"tie_word_embeddings":true,"layer_norm_epsilon":1e-5,
              "activation_function":"gelu_new"})",
          [](Hyperparameters& h, ModelInfo& model) {
            read_gpt2(h, model);
            h.only("scale_attn_by_inverse_layer_idx", false);
          },
          Reads::all}},
    .ggufs = {{"gpt2", {}, read_gguf_gpt2, Reads::all}},
    .shape = gpt2_shape,
    .names = gpt2_names,
    .row = {.name = "GPT-2", .differs = "layer norm, learned positions", .size = "124M"}};

}  // namespace pagoda::gpt2
