// Qwen3-30B-A3B, Qwen3-Coder, ...: Qwen3 with mixtures.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_qwen3_moe(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 151936,
               .hidden_size = 2048,
               .intermediate_size = 6144,
               .num_layers = 24,
               .num_heads = 32,
               .num_kv_heads = 4,
               .max_positions = 32768,
               .norm_eps = 1e-6f,
               .rope_theta = 10000.0f},
              config);
  config.sliding_window = read_optional_window(h);  // in all layers
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 128);
  experts.per_token = h.integer("num_experts_per_tok", 8);
  experts.intermediate_size = h.integer("moe_intermediate_size", 768);
  experts.renormalize = h.boolean("norm_topk_prob", false);
  read_sparse_layers(h, config);
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true}}, config);
  read_layers_with_routers(h, config);
}

}  // namespace

PAGODA_FAMILY(qwen3_moe) = {
    .architecture = "qwen3moe",
    .configs = {{"Qwen3MoeForCausalLM", "Qwen3MoeModel", "qwen3_moe", read_qwen3_moe}},
    .ggufs = {{"qwen3moe", read_gguf}},
    .describe = qwen3_description,
    .names = qwen3_moe_names,
    .row = {.name = "Qwen 3 MoE: 30B-A3B, 235B-A22B, Coder",
            .differs = "Qwen 3 with mixtures of experts",
            .checked = "transformers",
            .size = "30B-A3B",
            .config = R"({"model_type":"qwen3_moe","num_hidden_layers":48,"head_dim":128})"}};

}  // namespace pagoda
