// Hunyuan 3 (Hy3): Qwen 3 with mixtures behind dense layers, chosen as DeepSeek-V3's.
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelInfo& model) {
  for (const std::string_view option :
       {"qk_norm", "route_norm", "moe_router_use_sigmoid", "moe_router_enable_expert_bias"})
    h.only(option, true);
  h.without_effect("enable_moe_fp32_combine enable_lm_head_fp32 enable_attention_fp32_softmax");
  read_deepseek_like(h,
                     {.count = 192,
                      .per_token = 8,
                      .shared = 1,
                      .dense = 1,
                      .renormalize = true,
                      .intermediate = 1536,
                      .scale = h.number("router_scaling_factor", 2.826f),
                      .shared_name = "num_shared_experts"},
                     model);
}

}  // namespace

PAGODA_FAMILY(hy_v3) = {
    .configs = {{"HYV3ForCausalLM",
                 "hy_v3",
                 {.vocab_size = 120832,
                  .intermediate_size = 13312,
                  .num_layers = 80,
                  .num_heads = 64,
                  .num_kv_heads = 8,
                  .max_positions = 131072,
                  .rope_theta = 11158840.0f,
                  .head_size = 128},
                 read}},
    .ggufs = {{"hy_v3", {.experts = {.known = true, .score = RouterScore::sigmoid}}}},
    .shape = norm_heads,
    .folder_experts = ExpertPlaces{.shared = "shared_mlp",
                                   .router = "mlp.router.gate",
                                   .correction = "mlp.expert_bias"},
    .row = {.name = "Hy3 (Hunyuan 3) 295B-A21B",
            .differs = "norms of queries and keys, sigmoid routing with a correction behind dense layers",
            .size = "295B",
            .config = R"({"model_type":"hy_v3"})"}};

}  // namespace pagoda
