// Hunyuan with mixtures and a shared expert.
#include "models/reading.h"

namespace pagoda::hunyuan_moe {

void read_hunyuan_moe(Hyperparameters& h, ModelInfo& model) {
  MixtureConfig mixture = read_experts(h, model);
  mixture.routing.per_token = one_of(h, "moe_topk", 1);
  mixture.routing.renormalize = true;
  mixture.expert.intermediate_size = one_of(h, "moe_intermediate_size", model.intermediate_size);
  mixture.shared_intermediate_size = shared_size(h, "num_shared_expert", mixture);
  h.only("moe_layer_num_skipped", 0);
  use_mixtures(mixture, {}, model);
}

extern const Family family = {
    .configs = {{"HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe",
                 R"({"vocab_size":290943,"intermediate_size":11008,"bos_token_id":1,"eos_token_id":2,
                     "pad_token_id":0,"num_experts":1,"num_shared_expert":1})",
                 read_hunyuan_moe}},
    .ggufs = {{"hunyuan-moe", {.experts = {.known = true}}}},
    .shape = norm_heads_after_rope,
    .names = hunyuan_names,
    .folder_experts = ExpertPlaces{.shared = "shared_mlp", .router = "mlp.gate.wg"},
    .row = {.name = "Hunyuan MoE: A13B",
            .differs = "mixtures, norms after RoPE",
            .size = "80B-A13B",
            .config =
                R"({"model_type":"hunyuan_v1_moe","num_key_value_heads":8,"num_experts":64,"moe_topk":8})"}};

}  // namespace pagoda::hunyuan_moe
