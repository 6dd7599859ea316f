// Mixtral: Mistral with mixtures. In GGUF it is "llama".
#include "models/reading.h"

namespace pagoda::mixtral {

void read_mixtral(Hyperparameters& h, ModelInfo& model) {
  use_windows(h, h.integer("sliding_window", 0), {}, model);
  MixtureConfig mixture = read_experts(h, model);
  mixture.routing.renormalize = true;
  use_mixtures(mixture, {}, model);
}

extern const Family family = {
    .architecture = "mixtral",
    .configs = {{"MixtralForCausalLM", "mixtral",
                 R"({"intermediate_size":14336,"num_key_value_heads":8,"max_position_embeddings":131072,
                     "rms_norm_eps":1e-5,"bos_token_id":1,"eos_token_id":2,"rope_theta":1000000,
                     "num_local_experts":8,"num_experts_per_tok":2})",
                 read_mixtral}},
    .ggufs = {{"llama", {.interleaved_rows = true, .experts = {.known = true}}}},
    .names = [](WeightNames& names) { names.experts = mixtral_experts(); },
    .only_experts = true,
    .row = {.name = "Mixtral 8x7B, 8x22B",
            .differs = "mixtures of experts; in GGUF stacked, or one by one as old files have them",
            .size = "8x7B"}};

}  // namespace pagoda::mixtral
