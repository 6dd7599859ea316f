// Hunyuan with mixtures and a shared expert.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_hunyuan_moe(Hyperparameters& h, ModelConfig& config) {
  read_hunyuan(h, config);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 1);
  experts.per_token = one_of(h, "moe_topk", 1);
  experts.intermediate_size = one_of(h, "moe_intermediate_size", config.intermediate_size);
  experts.shared_intermediate_size = shared_size(h, "num_shared_expert", 1, experts);
  experts.renormalize = true;
  h.only("moe_layer_num_skipped", 0);
}

WeightNames names(ModelFormat format) {
  WeightNames names = hunyuan_names(format);
  if (format == ModelFormat::gguf) return names;
  names.experts = hf_expert_names("mlp", "shared_mlp");
  for (ExpertNames& each : names.experts) each.router = "mlp.gate.wg";
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true}}, config);
  read_layers_with_routers(h, config);
}

}  // namespace

PAGODA_FAMILY(hunyuan_moe) = {
    .architecture = "hunyuan-moe",
    .configs = {{"HunYuanMoEV1ForCausalLM", "HunYuanMoEV1Model", "hunyuan_v1_moe", read_hunyuan_moe}},
    .ggufs = {{"hunyuan-moe", read_gguf}},
    .describe = hunyuan_description,
    .names = names,
    .row = {.name = "Hunyuan MoE: A13B",
            .differs = "mixtures, norms behind the rotation",
            .checked = "transformers",
            .size = "80B-A13B",
            .config =
                R"({"model_type":"hunyuan_v1_moe","num_key_value_heads":8,"num_experts":64,"moe_topk":8})"}};

}  // namespace pagoda
