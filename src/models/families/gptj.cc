// GPT-J: layer norms, plain GELU MLPs, parallel attention and feed-forward with one norm, RoPE on adjacent
// pairs.
#include "models/reading.h"

namespace pagoda::gptj {

void read_gptj(Hyperparameters& h, ModelInfo& model) {
  read_plain_layers(h, model);
  begin_rotation(model.decoder, 10000.0f).rotary_size = h.integer("rotary_dim", 64);
  set_parallel(model.decoder);
}

void gptj_names(WeightNames& names) {
  names = {.prefix = "transformer.",
           .other_prefixes = {""},
           .token_embedding = "transformer.wte",
           .final_norm = "transformer.ln_f",
           .head = "lm_head",
           .layer = "transformer.h.{}.",
           .attention_norm = "ln_1",
           .query = "attn.q_proj",
           .key = "attn.k_proj",
           .value = "attn.v_proj",
           .attention_output = "attn.out_proj",
           .up = "mlp.fc_in",
           .down = "mlp.fc_out"};
}

extern const Family family = {
    .architecture = "gptj",
    .configs =
        {{"GPTJForCausalLM", "gptj",
          R"({"vocab_size":50400,"n_embd":4096,"n_layer":28,"n_head":16,"n_positions":2048,"n_inner":null,
              "bos_token_id":50256,"eos_token_id":50256,"layer_norm_epsilon":1e-5,
              "activation_function":"gelu_new","rope_interleave":true})",
          read_gptj, Reads::all}},
    .shape = plain_layer_norm_shape,
    .names = gptj_names,
    .row = {.name = "GPT-J 6B",
            .differs = "layer norms, parallel attention and feed-forward, biases, RoPE on adjacent pairs",
            .size = "6B"}};

}  // namespace pagoda::gptj
