// ERNIE 4.5 with mixtures, behind a dense layer.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_ernie4_5_moe(Hyperparameters& h, ModelInfo& model) {
  MixtureConfig mixture;
  mixture.routing.num_experts = integer_of(h, {"moe_num_experts", "num_experts"}, 64);
  mixture.routing.per_token = integer_of(h, {"moe_k", "num_experts_per_tok"}, 6);
  mixture.routing.renormalize = true;
  mixture.expert.intermediate_size = h.integer("moe_intermediate_size", 1536);
  mixture.shared_intermediate_size = shared_size(h, "moe_num_shared_experts", 2, mixture);
  h.only("moe_norm_min", 1e-12);
  const std::int32_t first = h.integer("moe_layer_start_index", 1);
  const std::int32_t last = h.integer("moe_layer_end_index", model.decoder.num_layers() - 1);
  const std::int32_t step = h.integer("moe_layer_interval", 1);
  if (step < 1) return h.fail("moe_layer_interval", "a positive integer");
  const auto is_sparse = [&](std::int32_t layer) {
    return layer >= first && (layer + 1) % step == 0 && (last < 0 || layer <= last);
  };
  use_mixtures(mixture, layers_where(model, is_sparse), model);
}

}  // namespace

PAGODA_FAMILY(ernie4_5_moe) = {
    .configs = {{"Ernie4_5_MoeForCausalLM",
                 "ernie4_5_moe",
                 {.vocab_size = 103424,
                  .hidden_size = 2560,
                  .intermediate_size = 12288,
                  .num_layers = 28,
                  .num_heads = 20,
                  .num_kv_heads = 4,
                  .max_positions = 131072,
                  .rope_theta = 500000.0f,
                  .bos = 1,
                  .eos = 2,
                  .pad = 0,
                  .tied = true,
                  .interleaved_rows = true},
                 read_ernie4_5_moe}},
    .ggufs = {{"ernie4_5-moe", {.interleaved_rows = true, .experts = {.known = true}}}},
    .folder_experts = ExpertPlaces{.shared = "shared_experts",
                                   .correction = "mlp.moe_statics.e_score_correction_bias"},
    .row = {.name = "ERNIE 4.5 MoE: 21B-A3B",
            .differs = "mixtures behind dense layers, adjacent pairs rotate",
            .size = "21B-A3B",
            .config = R"({"model_type":"ernie4_5_moe"})"}};

}  // namespace pagoda
