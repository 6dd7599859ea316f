// Command A+ and North Mini Code (Cohere): Command R7B with mixtures after dense layers, and RMS norms in
// some models.
#include <algorithm>

#include "models/reading.h"

namespace pagoda::cohere2_moe {

// Mixtures follow dense layers, which may have their own pattern of windows; if all dense layers have full
// attention, they rotate nevertheless. The shared experts' result is averaged with the others', or added.
void read_cohere2_moe(Hyperparameters& h, ModelInfo& model) {
  read_cohere(h, model);
  if (h.find("rms_norm_eps") == nullptr)
    layer_norms(model.decoder);
  else
    set_norm_eps(h.number("rms_norm_eps", 0), model.decoder);

  MixtureConfig mixture = read_experts(h, model);
  RoutingRule& rule = mixture.routing;
  mixture.shared_intermediate_size = shared_size(h, "num_shared_experts", mixture);
  const std::string how = h.string("shared_expert_combination_strategy", "average");
  if (how != "average") h.only("shared_expert_combination_strategy", "sum");
  if (how == "average" && mixture.shared_intermediate_size > 0) rule.scale = mixture.shared_scale = 0.5f;
  const bool normed = h.boolean("norm_topk_prob", true);
  if (h.string("expert_selection_fn", "softmax") == "softmax") {
    rule.score = RouterScore::softmax_of_chosen;
  } else {
    h.only("expert_selection_fn", "sigmoid");
    rule.score = RouterScore::sigmoid;
    rule.renormalize = normed;
  }
  const std::int32_t dense = std::max(h.integer("first_k_dense_replace", 0), 0);
  const std::vector<bool> sparse = read_mlp_types(h, dense, model);
  const std::int32_t wide = h.integer("prefix_dense_intermediate_size", 0);
  if (std::ranges::find(sparse, false) != sparse.end()) set_intermediate_size(wide, model);
  use_mixtures(mixture, sparse, model);

  const std::int32_t period = h.integer("sliding_window_pattern", 4);
  const std::int32_t dense_period = h.integer("prefix_dense_sliding_window_pattern", 1);
  if (period < 1 || dense_period < 1) return h.fail("sliding_window_pattern", "a positive integer");
  const std::vector<bool> windows = read_window_layers_or(h, model, [&](std::int32_t layer) {
    return layer < dense ? (layer + 1) % dense_period != 0 : (layer - dense + 1) % period != 0;
  });
  if (!h.status().ok()) return;
  use_windows(h, h.integer("sliding_window"), windows, model);
  std::vector<bool> rotating;
  for (std::size_t layer = 0; layer < windows.size(); ++layer)
    rotating.push_back(windows[layer] || (!sparse[layer] && dense_period == 1));
  rotate_layers(h, rotating, model.decoder);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  model.decoder.logit_scale = h.number("logit_scale", 1.0f);
  read_gguf_window_pattern(h, 4, model);
  for (LayerConfig& layer : model.decoder.layers) {
    MixtureConfig* const mixture = layer.mixture();
    if (mixture == nullptr) continue;
    if (layer.attention()->sliding_window == 0) layer.attention()->rope = kNoRope;
    if (mixture->shared_intermediate_size > 0) mixture->routing.scale = mixture->shared_scale = 0.5f;
  }
}

extern const Family family = {
    .configs = {{"Cohere2MoeForCausalLM", "cohere2_moe",
                 R"({"vocab_size":256000,"hidden_size":8192,"intermediate_size":22528,"num_hidden_layers":40,
                     "num_attention_heads":64,"max_position_embeddings":8192,"bos_token_id":5,
                     "eos_token_id":255001,"pad_token_id":0,"tie_word_embeddings":true,"layer_norm_eps":1e-5,
                     "logit_scale":0.0625,"rope_interleave":true,"head_dim":128,"sliding_window":4096,
                     "num_experts":8,"num_experts_per_tok":2})",
                 read_cohere2_moe}},
    .ggufs = {{"cohere2moe",
               {.layer_norm = true,
                .may_have_rms_norms = true,
                .interleaved_rows = true,
                .parallel = true,
                .experts = {.known = true, .score = RouterScore::sigmoid, .renormalize = false}},
               read_gguf}},
    .folder_experts = ExpertPlaces{.shared = "shared_experts"},
    .row = {.name = "Command A+, North Mini Code 30B-A3B",
            .differs = "Command R7B with mixtures after dense layers, whose shared expert is averaged with "
                       "the others; layer or RMS norms",
            .size = "30B-A3B",
            .config = R"({"model_type":"cohere2_moe","hidden_size":2048,"num_hidden_layers":49,
                      "num_attention_heads":16,"num_key_value_heads":4,"intermediate_size":1024,
                      "num_experts":128})"}};

}  // namespace pagoda::cohere2_moe
