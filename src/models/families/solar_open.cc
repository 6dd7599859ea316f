// Solar Open (Upstage): Llama with mixtures in every layer, with DeepSeek-V3's routing.
#include "models/reading.h"

namespace pagoda::solar_open {

void read(Hyperparameters& h, ModelInfo& model) {
  h.only("use_qk_norm", false);
  h.only("first_k_dense_replace", 0);
  read_deepseek_like(h, model);
}

extern const Family family = {
    .architecture = "solar-open",
    .configs =
        {{"SolarOpenForCausalLM", "solar_open",
          R"({"vocab_size":196608,"intermediate_size":10240,"num_hidden_layers":48,"num_attention_heads":64,
              "num_key_value_heads":8,"max_position_embeddings":131072,"rope_theta":1000000,"head_dim":128,
              "n_routed_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":1280,
              "n_shared_experts":1,"norm_topk_prob":true,"routed_scaling_factor":1})",
          read}},
    .folder_experts = ExpertPlaces{.shared = "shared_experts"},
    .row = {.name = "Solar Open 100B",
            .differs = "mixtures in every layer, sigmoid routing with a correction",
            .size = "100B"}};

}  // namespace pagoda::solar_open
