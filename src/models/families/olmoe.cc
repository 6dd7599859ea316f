// OLMoE: Llama with mixtures, and norms of all query heads and of all key heads.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_olmoe(Hyperparameters& h, ModelInfo& model) {
  read_common(h,
              {.vocab_size = 50304,
               .hidden_size = 2048,
               .intermediate_size = 2048,
               .num_layers = 16,
               .num_heads = 16,
               .max_positions = 4096,
               .eos = 50279,
               .pad = 1},
              model);
  clip_attention(h.number("clip_qkv", 0), model.decoder);
  MixtureConfig mixture = read_experts(h, {.count = 64, .per_token = 8}, model);
  mixture.routing.renormalize = h.boolean("norm_topk_prob", false);
  use_mixtures(mixture, {}, model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.experts = {.known = true, .renormalize = false}}, model);
}

}  // namespace

PAGODA_FAMILY(olmoe) = {.architecture = "olmoe",
                        .configs = {{"OlmoeForCausalLM", "OlmoeModel", "olmoe", read_olmoe}},
                        .ggufs = {{"olmoe", read_gguf}},
                        .shape = norm_heads_together,
                        .names = qwen3_moe_names,
                        .row = {.name = "OLMoE 7B-A1B",
                                .differs = "mixtures, norms of all heads together; one rank only",
                                .checked = "transformers",
                                .size = "7B-A1B",
                                .config = R"({"model_type":"olmoe"})"}};

}  // namespace pagoda
