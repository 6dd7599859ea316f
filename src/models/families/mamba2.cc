// Mamba 2: layers with only heads whose state is a matrix.
#include "models/reading.h"

namespace pagoda::mamba2 {

void read_mamba_2(Hyperparameters& h, ModelInfo& model) {
  read_states_alone(h, model);
  h.without_effect("time_step_rank");
  LinearAttentionConfig states = {.delta_rule = false,
                                  .num_heads = h.integer("num_heads", 128),
                                  .num_key_heads = h.integer("n_groups", 8),
                                  .key_size = h.integer("state_size", 128),
                                  .value_size = h.integer("head_dim", 64),
                                  .num_taps = h.integer("conv_kernel", 4)};
  states.norm_groups = states.num_key_heads;
  read_step_limit(h, states);
  use_states_alone(states, model);
}

void read_gguf_mamba_2(Hyperparameters& h, ModelInfo& model) { use_states_alone(read_state_heads(h), model); }

void mamba_2_names(WeightNames& names) {
  mamba2_names(names, "mixer");
  states_alone_names(names);
}

extern const Family family = {
    .configs = {{"Mamba2ForCausalLM", "mamba2",
                 R"({"vocab_size":32768,"num_hidden_layers":64,"layer_norm_epsilon":1e-5,"bos_token_id":0,
                     "eos_token_id":2,"pad_token_id":1})",
                 read_mamba_2, Reads::all}},
    .ggufs = {{"mamba2", {.rotates = false}, read_gguf_mamba_2}},
    .names = mamba_2_names,
    .gguf_names = states_alone_gguf_names,
    .row = {.name = "Mamba 2, Codestral Mamba 7B",
            .differs = "Mamba-2 in every layer, no attention and no feed-forward",
            .size = "7B",
            .config = R"({"model_type":"mamba2"})"}};

}  // namespace pagoda::mamba2
