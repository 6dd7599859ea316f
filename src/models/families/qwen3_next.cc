// Qwen3-Next: a gated delta net in three of four layers, in the others Qwen3's attention with a gate for each
// head's output, a part of each head that rotates, and mixtures.
#include "models/reading.h"

namespace pagoda {

PAGODA_FAMILY(qwen3_next) = {
    .configs = {{"Qwen3NextForCausalLM",
                 "qwen3_next",
                 {.vocab_size = 151936,
                  .hidden_size = 2048,
                  .intermediate_size = 5632,
                  .num_layers = 48,
                  .num_heads = 16,
                  .num_kv_heads = 2,
                  .max_positions = 32768,
                  .norm_eps = 1e-6f,
                  .head_size = 256,
                  .partial = 0.25f},
                 [](Hyperparameters& h, ModelInfo& model) {
                   read_delta_net(h, model);
                   use_mixtures(read_gated_experts(h, 512, 10, model), read_sparse_layers(h, model), model);
                 }}},
    .ggufs = {{"qwen3next",
               {.experts = {.known = true, .shared_gate = true}},
               [](Hyperparameters& h, ModelInfo& model) { read_gguf_delta_net(h, false, model); }}},
    .shape = delta_net_shape,
    .names = delta_net_names,
    .row = {.name = "Qwen 3-Next 80B-A3B, Coder-Next",
            .differs = "Qwen 3.5 with mixtures, other names; one rank only",
            .size = "80B-A3B",
            .config = R"({"model_type":"qwen3_next"})"}};

}  // namespace pagoda
