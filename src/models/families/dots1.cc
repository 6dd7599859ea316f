// dots.llm1: Qwen3 with mixtures behind dense layers, and shared experts.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_dots1(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 152064,
               .hidden_size = 4608,
               .intermediate_size = 10944,
               .num_layers = 62,
               .num_heads = 32,
               .max_positions = 2048,
               .norm_eps = 1e-6f,
               .rope_theta = 10000.0f},
              config);
  config.sliding_window = h.integer("sliding_window", 4096);
  if (!read_layer_types(h, config)) config.sliding_window = 0;
  finish_windows(h, config);
  read_deepseek_like(h, {.count = 0, .per_token = 0, .shared = 0, .dense = 0, .renormalize = false}, config);
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = hf_expert_names("mlp", "shared_experts");
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true, .score = ExpertScore::sigmoid, .renormalize = false}},
                   config);
  read_layers_with_routers(h, config);
}

}  // namespace

PAGODA_FAMILY(dots1) = {.architecture = "dots1",
                        .configs = {{"Dots1ForCausalLM", "Dots1Model", "dots1", read_dots1}},
                        .ggufs = {{"dots1", read_gguf}},
                        .describe = qwen3_description,
                        .names = names,
                        .row = {.name = "dots.llm1",
                                .differs = "Qwen 3 with GLM 4.5's routing and shared experts",
                                .checked = "transformers",
                                .size = "142B-A14B",
                                .config = R"({"model_type":"dots1","hidden_size":4096,"n_routed_experts":128,
                       "num_experts_per_tok":6})"}};

}  // namespace pagoda
