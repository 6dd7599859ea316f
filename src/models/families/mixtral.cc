// Mixtral: Mistral with mixtures. As GGUF it comes as "llama".
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_mixtral(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 32000,
               .hidden_size = 4096,
               .intermediate_size = 14336,
               .num_layers = 32,
               .num_heads = 32,
               .num_kv_heads = 8,
               .max_positions = 131072,
               .norm_eps = 1e-5f,
               .rope_theta = 1000000.0f,
               .bos = 1,
               .eos = 2},
              config);
  config.sliding_window = h.integer("sliding_window", 0);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 8);
  experts.per_token = h.integer("num_experts_per_tok", 2);
  experts.intermediate_size = config.intermediate_size;
  experts.renormalize = true;
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format != ModelFormat::gguf) names.experts = mixtral_experts();
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.interleaved_rows = true, .experts = {.known = true}}, config);
  read_layers_with_routers(h, config);
}

}  // namespace

PAGODA_FAMILY(mixtral) = {
    .architecture = "mixtral",
    .configs = {{"MixtralForCausalLM", "MixtralModel", "mixtral", read_mixtral}},
    .ggufs = {{"llama", read_gguf}},
    .describe = common_description,
    .names = names,
    .only_experts = true,
    .row = {.name = "Mixtral 8x7B, 8x22B",
            .differs = "mixtures of experts; in GGUF stacked, or one by one as old files have them",
            .checked = "transformers",
            .size = "8x7B",
            .config = R"({"model_type":"mixtral"})"}};

}  // namespace pagoda
