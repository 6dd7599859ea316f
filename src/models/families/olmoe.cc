// OLMoE: Llama with mixtures, and norms of all query heads and of all key heads.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_olmoe(Hyperparameters& h, ModelInfo& model) {
  clip_attention(h.number("clip_qkv", 0), model.decoder);
  MixtureConfig mixture = read_experts(h, {.count = 64, .per_token = 8}, model);
  mixture.routing.renormalize = h.boolean("norm_topk_prob", false);
  use_mixtures(mixture, {}, model);
}

}  // namespace

PAGODA_FAMILY(olmoe) = {.configs = {{"OlmoeForCausalLM",
                                     "olmoe",
                                     {.vocab_size = 50304,
                                      .hidden_size = 2048,
                                      .intermediate_size = 2048,
                                      .num_layers = 16,
                                      .num_heads = 16,
                                      .max_positions = 4096,
                                      .eos = 50279,
                                      .pad = 1},
                                     read_olmoe}},
                        .ggufs = {{"olmoe", {.experts = {.known = true, .renormalize = false}}}},
                        .shape = norm_heads_together,
                        .folder_experts = ExpertPlaces{},
                        .row = {.name = "OLMoE 7B-A1B",
                                .differs = "mixtures, norms of all heads together; one rank only",
                                .size = "7B-A1B",
                                .config = R"({"model_type":"olmoe"})"}};

}  // namespace pagoda
