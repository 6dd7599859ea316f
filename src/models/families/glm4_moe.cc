// GLM-4.5 and its successors: Llama with mixtures behind dense layers, heads of which a part rotates, and in
// some models norms of every query and key head.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_glm4_moe(Hyperparameters& h, ModelConfig& config) {
  Defaults absent = {.vocab_size = 151552,
                     .hidden_size = 4096,
                     .intermediate_size = 10944,
                     .num_layers = 46,
                     .num_heads = 96,
                     .num_kv_heads = 8,
                     .max_positions = 131072,
                     .norm_eps = 1e-5f,
                     .rope_theta = 10000.0f};
  absent.partial = 0.5f;
  read_common(h, absent, config);
  config.query_key_norm = h.boolean("use_qk_norm", false);
  read_deepseek_like(h, {.count = 128, .per_token = 8, .shared = 1, .dense = 1, .renormalize = true}, config);
}

// The same without norms of queries and keys.
void read_glm4v_moe(Hyperparameters& h, ModelConfig& config) {
  Defaults absent = {.vocab_size = 151424,
                     .hidden_size = 4096,
                     .intermediate_size = 10944,
                     .num_layers = 46,
                     .num_heads = 96,
                     .num_kv_heads = 8,
                     .max_positions = 65536,
                     .norm_eps = 1e-5f,
                     .rope_theta = 10000.0f};
  absent.partial = 1;
  read_common(h, absent, config);
  h.only("use_qk_norm", false);
  read_deepseek_like(h, {.count = 128, .per_token = 8, .shared = 1, .dense = 1, .renormalize = true}, config);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  return config.query_key_norm ? qwen3_description(config) : common_description(config);
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face)
    names.experts = hf_expert_names("mlp", "shared_experts");
  else
    names.mlp_norm = "post_attention_norm";
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true, .score = ExpertScore::sigmoid}}, config);
  read_layers_with_routers(h, config);
  read_query_key_norm(h, config);
}

}  // namespace

PAGODA_FAMILY(glm4_moe) = {
    .architecture = "glm4moe",
    .configs = {{"Glm4MoeForCausalLM", "Glm4MoeModel", "glm4_moe", read_glm4_moe},
                {"Glm4vMoeTextModel", "Glm4vMoeTextModel", "glm4v_moe_text", read_glm4v_moe}},
    .wrappers = {{"Glm4vMoeForConditionalGeneration", "glm4v_moe", "glm4v_moe_text"}},
    .ggufs = {{"glm4moe", read_gguf}},
    .describe = describe,
    .names = names,
    .row = {.name = "GLM 4.5, 4.5-Air, 4.6, text of 4.5V",
            .differs = "sigmoid routing with a correction and groups, partial rotation",
            .checked = "transformers",
            .size = "4.5-Air",
            .config = R"({"model_type":"glm4_moe","head_dim":128})"}};

}  // namespace pagoda
