// ERNIE 4.5 with mixtures after a dense layer.
#include "models/reading.h"

namespace pagoda::ernie4_5_moe {

void read_ernie4_5_moe(Hyperparameters& h, ModelInfo& model) {
  MixtureConfig mixture = read_experts(h, model);
  mixture.routing.renormalize = true;
  mixture.shared_intermediate_size = shared_size(h, "moe_num_shared_experts", mixture);
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

extern const Family family = {
    .configs = {{"Ernie4_5_MoeForCausalLM", "ernie4_5_moe",
                 R"({"vocab_size":103424,"hidden_size":2560,"intermediate_size":12288,"num_hidden_layers":28,
                     "num_attention_heads":20,"num_key_value_heads":4,"max_position_embeddings":131072,
                     "rope_theta":500000,"bos_token_id":1,"eos_token_id":2,"pad_token_id":0,
                     "tie_word_embeddings":true,"rope_interleave":true,"moe_num_experts":64,"moe_k":6,
                     "moe_intermediate_size":1536,"moe_num_shared_experts":2})",
                 read_ernie4_5_moe}},
    .ggufs = {{"ernie4_5-moe", {.interleaved_rows = true, .experts = {.known = true}}}},
    .folder_experts =
        ExpertPlaces{.shared = "shared_experts", .correction = "mlp.moe_statics.e_score_correction_bias"},
    .row = {.name = "ERNIE 4.5 MoE: 21B-A3B",
            .differs = "mixtures after dense layers, RoPE on adjacent pairs",
            .size = "21B-A3B"}};

}  // namespace pagoda::ernie4_5_moe
