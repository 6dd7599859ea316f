// Ling and Ring 2 (bailing_moe): Llama with query, key and value in one matrix, norms of every query and key
// head, heads of which a part rotates, and mixtures behind dense layers.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_bailing_moe2(Hyperparameters& h, ModelInfo& model) {
  for (const std::string_view option : {"use_bias", "use_qkv_bias"}) h.only(option, false);
  h.only("use_qk_norm", true);
  h.only("moe_router_enable_expert_bias", true);
  if (h.find("score_function") != nullptr) h.only("score_function", "sigmoid");
  read_deepseek_like(h,
                     {.count = 256,
                      .per_token = 8,
                      .shared = 1,
                      .dense = 1,
                      .renormalize = true,
                      .groups = 8,
                      .groups_used = 4,
                      .shared_name = "num_shared_experts"},
                     model);
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  names.query = names.key = names.value = "";
  if (format == ModelFormat::gguf) return names;
  names.token_embedding = "model.word_embeddings";
  names.fused_qkv = "attention.query_key_value";
  names.attention_output = "attention.dense";
  names.query_norm = "attention.query_layernorm";
  names.key_norm = "attention.key_layernorm";
  return names;
}

}  // namespace

PAGODA_FAMILY(bailing_moe2) = {
    .configs = {{"BailingMoeV2ForCausalLM",
                 "bailing_moe",
                 {.vocab_size = 157184,
                  .hidden_size = 2048,
                  .intermediate_size = 5120,
                  .num_layers = 20,
                  .num_heads = 16,
                  .num_kv_heads = 4,
                  .max_positions = 32768,
                  .norm_eps = 1e-6f,
                  .rope_theta = 600000.0f,
                  .eos = 156892,
                  .pad = 156892,
                  .head_size = 128,
                  .partial = 0.5f},
                 read_bailing_moe2}},
    .ggufs = {{"bailingmoe2", {.experts = {.known = true, .score = RouterScore::sigmoid}}}},
    .shape = norm_heads,
    .names = names,
    .folder_experts = ExpertPlaces{.shared = "shared_experts", .correction = "mlp.gate.expert_bias"},
    .row = {.name = "Ling, Ring 2: mini 16B-A1.4B",
            .differs = "query, key and value in one matrix, half of each head rotates, norms of queries and "
                       "keys, GLM 4.5's routing",
            .checked = "transformers' GLM 4.5 on the same numbers",
            .size = "mini",
            .config = R"({"model_type":"bailing_moe"})"}};

}  // namespace pagoda
