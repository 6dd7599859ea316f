// Jamba: Mamba-1 with norms of steps, B and C in most layers, attention without RoPE in the others; mixtures
// in every second layer, or in none.
#include <algorithm>

#include "models/reading.h"

namespace pagoda::jamba {

// Returns layers `offset`, `offset` + `period`, ...
std::vector<bool> read_every(Hyperparameters& h, std::string_view which, std::int32_t period,
                             std::int32_t offset, const ModelInfo& model) {
  const std::string of_period = concat(which, "_layer_period"), of_offset = concat(which, "_layer_offset");
  period = h.integer(of_period, period);
  offset = h.integer(of_offset, offset);
  if (period < 1) h.fail(of_period, "a positive integer");
  if (offset < 0 || offset >= period) h.fail(of_offset, "less than the period");
  return layers_where(model, [&](std::int32_t layer) { return period > 0 && layer % period == offset; });
}

void read_jamba(Hyperparameters& h, ModelInfo& model) {
  read_layers(h, model);
  h.only("hidden_act", "silu");  // also used by the convolution
  h.only("mamba_inner_layernorms", true);
  h.without_effect(
      "calc_logits_for_entire_prompt layer_types layers_block_type layers_num_experts mamba_proj_bias "
      "num_logits_to_keep sliding_window use_associative_scan use_mamba_kernels use_mambapy");
  const SelectiveScanConfig scan = {
      .num_channels = times(h.integer("mamba_expand", 2), model.decoder.hidden_size),
      .state_size = h.integer("mamba_d_state", 16),
      .step_rank = read_step_rank(h, "mamba_dt_rank", model),
      .num_taps = h.integer("mamba_d_conv", 4),
      .norms = SelectiveScanConfig::Norms::weighted,
      .norm_eps = model.decoder.layers.front().norm.eps};
  std::vector<bool> recurrent = read_every(h, "attn", 8, 4, model);
  recurrent.flip();
  MixtureConfig mixture = read_experts(h, model);
  mixture.routing.renormalize = false;
  const std::vector<bool> sparse = read_every(h, "expert", 2, 1, model);
  // A single expert is a dense feed-forward.
  if (mixture.routing.num_experts > 1) use_mixtures(mixture, sparse, model);
  use_mixer(h, scan, recurrent, model);
}

void jamba_names(WeightNames& names) {
  mamba1_names(names, "mamba");
  beside_states_names(names);
}

void read_gguf_jamba(Hyperparameters& h, ModelInfo& model) {
  SelectiveScanConfig scan = read_gguf_scan(h);
  scan.norms = SelectiveScanConfig::Norms::weighted;
  scan.norm_eps = model.decoder.layers.front().norm.eps;
  // Layers without key-value heads are recurrent.
  std::vector<bool> recurrent;
  for (const LayerConfig& layer : model.decoder.layers)
    recurrent.push_back(layer.attention()->num_kv_heads == 0);
  use_mixer(h, scan, recurrent, model);
}

extern const Family family = {
    .configs = {{"JambaForCausalLM", "jamba",
                 R"({"vocab_size":65536,"intermediate_size":14336,"num_key_value_heads":8,"rms_norm_eps":1e-6,
                     "max_position_embeddings":262144,"bos_token_id":1,"eos_token_id":2,"pad_token_id":0,
                     "num_experts":16,"num_experts_per_tok":2})",
                 read_jamba, Reads::all}},
    .ggufs = {{"jamba",
               {.rotates = false,
                .experts = {.known = true, .score = RouterScore::softmax, .renormalize = false}},
               read_gguf_jamba}},
    .names = jamba_names,
    .folder_experts = ExpertPlaces{.mixture = "feed_forward", .router = "feed_forward.router"},
    .row = {.name = "Jamba, Jamba 1.5 to 1.7, Jamba Reasoning 3B",
            .differs = "Mamba-1 with norms of what its states read in most layers, attention without RoPE, "
                       "mixtures in every second layer, 3B: in none",
            .size = "Mini 52B-A12B",
            .config = R"({"model_type":"jamba"})"}};

}  // namespace pagoda::jamba
