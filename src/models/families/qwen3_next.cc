// Qwen3-Next: a gated delta net in three of four layers; in the others Qwen3's attention with gated head
// outputs and partial rotation; mixtures.
#include "models/reading.h"

namespace pagoda::qwen3_next {

extern const Family family = {
    .configs = {{"Qwen3NextForCausalLM", "qwen3_next",
                 R"({"vocab_size":151936,"hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":48,
                     "num_attention_heads":16,"num_key_value_heads":2,"max_position_embeddings":32768,
                     "rms_norm_eps":1e-6,"head_dim":256,"partial_rotary_factor":0.25,"num_experts":512,
                     "num_experts_per_tok":10,"moe_intermediate_size":512,
                     "shared_expert_intermediate_size":512,"norm_topk_prob":true})",
                 [](Hyperparameters& h, ModelInfo& model) {
                   read_delta_net(h, model);
                   use_mixtures(read_gated_experts(h, model), read_sparse_layers(h, model), model);
                 }}},
    .ggufs = {{"qwen3next",
               {.experts = {.known = true, .shared_gate = true}},
               [](Hyperparameters& h, ModelInfo& model) { read_gguf_delta_net(h, false, model); }}},
    .shape = delta_net_shape,
    .names = delta_net_names,
    .gguf_names = delta_net_gguf_names,
    .row = {.name = "Qwen 3-Next 80B-A3B, Coder-Next",
            .differs = "Qwen 3.5 with mixtures, other tensor names",
            .size = "80B-A3B"}};

}  // namespace pagoda::qwen3_next
