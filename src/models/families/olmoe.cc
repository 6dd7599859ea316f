// OLMoE: Llama with mixtures, and norms of all query heads and of all key heads.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_olmoe(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 50304,
               .hidden_size = 2048,
               .intermediate_size = 2048,
               .num_layers = 16,
               .num_heads = 16,
               .max_positions = 4096,
               .norm_eps = 1e-5f,
               .rope_theta = 10000.0f,
               .eos = 50279,
               .pad = 1},
              config);
  config.attention_clip = h.number("clip_qkv", 0);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 64);
  experts.per_token = h.integer("num_experts_per_tok", 8);
  experts.intermediate_size = config.intermediate_size;
  experts.renormalize = h.boolean("norm_topk_prob", false);
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = hf_expert_names("mlp", "");
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true, .renormalize = false}}, config);
  read_layers_with_routers(h, config);
}

}  // namespace

PAGODA_FAMILY(olmoe) = {.architecture = "olmoe",
                        .configs = {{"OlmoeForCausalLM", "OlmoeModel", "olmoe", read_olmoe}},
                        .ggufs = {{"olmoe", read_gguf}},
                        .describe = olmoe_description,
                        .names = names,
                        .row = {.name = "OLMoE 7B-A1B",
                                .differs = "mixtures, norms of all heads together; one rank only",
                                .checked = "transformers",
                                .size = "7B-A1B",
                                .config = R"({"model_type":"olmoe"})"}};

}  // namespace pagoda
