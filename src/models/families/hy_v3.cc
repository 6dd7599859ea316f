// Hunyuan 3 (Hy3): Qwen 3 with mixtures after dense layers, with DeepSeek-V3's routing.
#include "models/reading.h"

namespace pagoda::hy_v3 {

void read(Hyperparameters& h, ModelInfo& model) {
  for (const std::string_view option :
       {"qk_norm", "route_norm", "moe_router_use_sigmoid", "moe_router_enable_expert_bias"})
    h.only(option, true);
  h.without_effect("enable_moe_fp32_combine enable_lm_head_fp32 enable_attention_fp32_softmax");
  read_deepseek_like(h, model);
  const float scale = h.number("routed_scaling_factor", h.number("router_scaling_factor"));
  each_mixture(model.decoder, [&](MixtureConfig& mixture) { mixture.routing.scale = scale; });
}

extern const Family family = {
    .configs =
        {{"HYV3ForCausalLM", "hy_v3",
          R"({"vocab_size":120832,"intermediate_size":13312,"num_hidden_layers":80,"num_attention_heads":64,
              "num_key_value_heads":8,"max_position_embeddings":131072,"rope_theta":11158840,"head_dim":128,
              "num_experts":192,"num_experts_per_tok":8,"moe_intermediate_size":1536,"num_shared_experts":1,
              "first_k_dense_replace":1,"norm_topk_prob":true,"router_scaling_factor":2.826})",
          read}},
    .ggufs = {{"hy_v3", {.experts = {.known = true, .score = RouterScore::sigmoid}}}},
    .shape = norm_heads,
    .folder_experts =
        ExpertPlaces{.shared = "shared_mlp", .router = "mlp.router.gate", .correction = "mlp.expert_bias"},
    .row = {.name = "Hy3 (Hunyuan 3) 295B-A21B",
            .differs = "norms of queries and keys, sigmoid routing with a correction after dense layers",
            .size = "295B"}};

}  // namespace pagoda::hy_v3
