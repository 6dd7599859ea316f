// K-EXAONE: Qwen 3 with windows, which alone rotate, and mixtures behind dense layers, chosen as
// DeepSeek-V3's.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 102400,
               .hidden_size = 4096,
               .intermediate_size = 16384,
               .num_layers = 32,
               .num_heads = 32,
               .num_kv_heads = 32,
               .max_positions = 2048,
               .norm_eps = 1e-5f,
               .bos = 1,
               .eos = 53,
               .pad = 0},
              config);
  config.sliding_window = h.written("sliding_window") ? h.integer("sliding_window", 0) : 4096;
  if (h.find("layer_types") != nullptr) h.without_effect({"sliding_window_pattern"});  // which says the same
  const bool windows = config.sliding_window > 0;
  read_window_pattern(h, config, 4);
  if (windows) rotate_windows_alone(config);
  read_deepseek_like(
      h, {.count = 64, .per_token = 8, .shared = 1, .dense = 1, .renormalize = true, .intermediate = 1024},
      config);
  config.experts.shared_intermediate_size = shared_size(h, "num_shared_experts", 1, config.experts);
  if (h.find("routed_scaling_factor") == nullptr) config.experts.scale = 2.5f;
  if (h.find("mlp_layer_types") != nullptr) read_mlp_types(h, 0, config);
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true, .score = ExpertScore::sigmoid}}, config);
  read_layers_with_routers(h, config);
  if (config.sliding_window == 0) return;
  read_gguf_window_pattern(h, 4, config);
  config.rope_layers = config.window_layers;
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.experts = hf_expert_names("mlp", "shared_experts");
  for (ExpertNames& form : names.experts) form.correction = "mlp.e_score_correction_bias";
  return names;
}

}  // namespace

PAGODA_FAMILY(exaone_moe) = {
    .architecture = "exaone-moe",
    .configs = {{"ExaoneMoeForCausalLM", "ExaoneMoeModel", "exaone_moe", read},
                {"ExaoneMoEForCausalLM", "ExaoneMoEModel", "exaone_moe", read}},
    .ggufs = {{"exaone-moe", read_gguf}},
    .describe = qwen3_description,
    .names = names,
    .row = {.name = "K-EXAONE 236B-A23B",
            .differs = "norms of queries and keys, windows, which alone rotate, sigmoid routing with a "
                       "correction behind dense layers",
            .checked = "transformers",
            .size = "236B",
            .config = R"({"model_type":"exaone_moe","hidden_size":6144,"num_hidden_layers":48,"head_dim":128,
                       "num_attention_heads":64,"num_key_value_heads":8,"num_experts":128,
                       "max_position_embeddings":262144,"sliding_window":128})"}};

}  // namespace pagoda
