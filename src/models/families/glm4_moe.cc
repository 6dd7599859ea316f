// GLM-4.5 and its successors: Llama with mixtures behind dense layers, heads of which a part rotates, and in
// some models norms of every query and key head.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_glm4_moe(Hyperparameters& h, ModelInfo& model) {
  if (h.boolean("use_qk_norm", false)) norm_heads(model.decoder);
  read_deepseek_like(h, {.count = 128, .per_token = 8, .shared = 1, .dense = 1, .renormalize = true}, model);
}

// The same without norms of queries and keys.
void read_glm4v_moe(Hyperparameters& h, ModelInfo& model) {
  h.only("use_qk_norm", false);
  read_deepseek_like(h, {.count = 128, .per_token = 8, .shared = 1, .dense = 1, .renormalize = true}, model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  if (has_query_norm(h)) norm_heads(model.decoder);
}

}  // namespace

PAGODA_FAMILY(glm4_moe) = {
    .configs = {{"Glm4MoeForCausalLM",
                 "glm4_moe",
                 {.vocab_size = 151552,
                  .intermediate_size = 10944,
                  .num_layers = 46,
                  .num_heads = 96,
                  .num_kv_heads = 8,
                  .max_positions = 131072,
                  .partial = 0.5f},
                 read_glm4_moe},
                {"Glm4vMoeTextModel",
                 "glm4v_moe_text",
                 {.vocab_size = 151424,
                  .intermediate_size = 10944,
                  .num_layers = 46,
                  .num_heads = 96,
                  .num_kv_heads = 8,
                  .max_positions = 65536,
                  .partial = 1},
                 read_glm4v_moe}},
    .wrappers = {{"Glm4vMoeForConditionalGeneration", "glm4v_moe", "glm4v_moe_text"}},
    .ggufs = {{"glm4moe", {.experts = {.known = true, .score = RouterScore::sigmoid}}, read_gguf}},
    .gguf_names = [](WeightNames& names) { names.mlp_norm = "post_attention_norm"; },
    .folder_experts = ExpertPlaces{.shared = "shared_experts"},
    .row = {.name = "GLM 4.5, 4.5-Air, 4.6, text of 4.5V",
            .differs = "sigmoid routing with a correction and groups, partial rotation",
            .size = "4.5-Air",
            .config = R"({"model_type":"glm4_moe","head_dim":128})"}};

}  // namespace pagoda
