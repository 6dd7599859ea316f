// Nemotron-H, Nemotron Nano 2 and 3: each layer is either Mamba-2, attention without RoPE, or a feed-forward.
#include <algorithm>

#include "models/reading.h"

namespace pagoda::nemotron_h {

// Makes each layer a single sublayer.
void use_blocks(Hyperparameters& h, const LinearAttentionConfig& states, const std::vector<Block>& blocks,
                ModelInfo& model) {
  if (blocks.size() != model.decoder.layers.size()) return h.corrupt("the kind of every layer must be given");
  rotate_nothing(model.decoder);
  plain_feed_forwards(model.decoder);
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    LayerConfig& layer = model.decoder.layers[index];
    const bool mixes = blocks[index] == Block::mamba || blocks[index] == Block::attention;
    if (blocks[index] == Block::mamba) layer.mixer = states;
    if (mixes)
      layer.feed_forward = NoFeedForwardConfig{};
    else
      layer.mixer = NoMixerConfig{};
    layer.mixer_norms.input = mixes;
    layer.feed_forward_norms.input = !mixes;
  }
}

MixtureConfig read_mixture(Hyperparameters& h) {
  MixtureConfig mixture;
  RoutingRule& rule = mixture.routing;
  rule.num_experts = h.integer("n_routed_experts", h.integer("num_local_experts", 8));
  h.without_effect("num_local_experts");
  rule.per_token = h.integer("num_experts_per_tok", 2);
  mixture.expert.intermediate_size = h.integer("moe_intermediate_size", 7688);
  mixture.shared_intermediate_size = h.integer("moe_shared_expert_intermediate_size", 7688);
  rule.score = RouterScore::sigmoid;
  rule.renormalize = h.boolean("norm_topk_prob", true);
  rule.scale = h.number("routed_scaling_factor", 1.0f);
  rule.num_groups = h.integer("n_group", 1);
  rule.groups_used = h.integer("topk_group", 1);
  return mixture;
}

void read_nemotron_h(Hyperparameters& h, ModelInfo& model) {
  std::vector<Block> blocks = read_blocks(h);
  if (!h.written("hybrid_override_pattern") && !h.written("layers_block_type") && !h.written("layer_types"))
    blocks = {Block::mamba, Block::experts, Block::attention, Block::dense};
  read_layers(h, model, {.layers = static_cast<std::int32_t>(std::min<std::size_t>(blocks.size(), 1 << 20))});
  read_rope(h, model);
  model.decoder.tied_head = false;  // the head is always stored, whatever the file says
  h.only("moe_latent_size", nullptr);
  h.only("mamba_hidden_act", "silu");
  // Training options, and options implied by others or by the tensors.
  h.without_effect(
      "num_hidden_layers chunk_size expand mamba_ssm_cache_dtype moe_shared_expert_overlap "
      "mtp_layers_block_type n_shared_experts rescale_prenorm_residual time_step_floor "
      "time_step_limit time_step_max use_bias use_conv_bias use_mamba_kernels");
  if (h.find("sliding_window") != nullptr) h.only("sliding_window", 0);
  LinearAttentionConfig states = {.delta_rule = false,
                                  .num_heads = h.integer("mamba_num_heads", 128),
                                  .num_key_heads = h.integer("n_groups", h.integer("mamba_n_groups", 8)),
                                  .key_size = h.integer("ssm_state_size", 128),
                                  .value_size = h.integer("mamba_head_dim", 64),
                                  .num_taps = h.integer("conv_kernel", h.integer("mamba_d_conv", 4)),
                                  .least_step = h.number("time_step_min", h.number("mamba_dt_min", 0.001f))};
  states.norm_groups = states.num_key_heads;
  // These fields exist whether or not a layer has a mixture.
  const MixtureConfig mixture = read_mixture(h);
  std::vector<bool> sparse;
  for (const Block block : blocks) sparse.push_back(block == Block::experts);
  if (sparse.size() == model.decoder.layers.size()) use_mixtures(mixture, sparse, model);
  use_blocks(h, states, blocks, model);
}

void nemotron_names(WeightNames& names) {
  mamba2_names(names, "mixer");
  states_alone_names(names);
  names.query = "mixer.q_proj";
  names.key = "mixer.k_proj";
  names.value = "mixer.v_proj";
  names.attention_output = "mixer.o_proj";
  names.up = "mixer.up_proj";
  names.down = "mixer.down_proj";
  names.experts = hf_expert_names({.mixture = "mixer", .shared = "shared_experts"});
  // In tensors for all experts there is no gate.
  names.experts.back().gate_up = "";
  names.experts.back().up = "mixer.experts.up_proj";
  ExpertNames mlx = mlx_experts(names.experts.front(), "mixer.switch_mlp");
  mlx.up = "mixer.switch_mlp.fc1";
  mlx.down = "mixer.switch_mlp.fc2";
  names.experts.push_back(std::move(mlx));
}

// The file omits the least step, which is the same in all models of the family.
void read_blocks_by_tensor(Hyperparameters& h, ModelInfo& model) {
  LinearAttentionConfig states = read_state_heads(h);
  states.least_step = 0.001f;
  const std::vector<bool> recurrent = layers_with_states(h, model);
  const std::vector<std::int32_t> inner = h.of_layers("feed_forward_length", model.decoder.num_layers());
  std::vector<Block> blocks;
  for (std::size_t layer = 0; layer < std::min(recurrent.size(), inner.size()); ++layer)
    blocks.push_back(inner[layer] > 0 ? Block::dense : recurrent[layer] ? Block::mamba : Block::attention);
  use_blocks(h, states, blocks, model);
}

extern const Family family = {
    .configs = {{"NemotronHForCausalLM", "nemotron_h",
                 R"({"vocab_size":131072,"intermediate_size":21504,"num_key_value_heads":8,
                     "max_position_embeddings":4096,"bos_token_id":1,"eos_token_id":2,"pad_token_id":0,
                     "head_dim":128,"layer_norm_epsilon":1e-5,"rms_norm_eps":1e-5,"mlp_hidden_act":"relu2"})",
                 read_nemotron_h, Reads::all}},
    .ggufs = {{"nemotron_h", {.activation = "relu2"}, read_blocks_by_tensor},
              {"nemotron_h_moe",
               {.activation = "relu2", .experts = {.known = true, .score = RouterScore::sigmoid}},
               read_blocks_by_tensor}},
    .names = nemotron_names,
    .gguf_names = [](WeightNames& names) { names.mlp_norm = names.attention_norm; },
    .row = {.name = "Nemotron-H, Nemotron Nano 2, Nemotron 3 Nano 30B-A3B",
            .differs = "each layer is Mamba-2, attention without RoPE, or a feed-forward (squared ReLU, or a "
                       "mixture of such); not those with a latent size",
            .size = "30B-A3B",
            .config = R"({"model_type":"nemotron_h","hidden_size":2688,"num_attention_heads":32,
                          "num_key_value_heads":2,"mamba_num_heads":64,"n_routed_experts":128,
                          "num_experts_per_tok":6,
                          "hybrid_override_pattern":"MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"})"}};

}  // namespace pagoda::nemotron_h
