// Nemotron-H, Nemotron Nano 2 and 3: layers that are Mamba-2, attention without rotation, or a feed-forward,
// one of them.
#include <algorithm>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_nemotron_h(Hyperparameters& h, ModelConfig& config) {
  Defaults absent = {.vocab_size = 131072,
                     .hidden_size = 4096,
                     .intermediate_size = 21504,
                     .num_layers = 0,
                     .num_heads = 32,
                     .num_kv_heads = 8,
                     .max_positions = 4096,
                     .norm_eps = 1e-5f,
                     .rope_theta = 10000.0f,
                     .bos = 1,
                     .eos = 2,
                     .pad = 0,
                     .head_size = 128};
  absent.eps_name = h.find("layer_norm_epsilon") != nullptr ? "layer_norm_epsilon" : "rms_norm_eps";
  absent.activation = "relu2";
  std::vector<Block> blocks = read_blocks(h);
  if (!h.written("hybrid_override_pattern") && !h.written("layers_block_type") && !h.written("layer_types"))
    blocks = {Block::mamba, Block::experts, Block::attention, Block::dense};
  absent.num_layers = static_cast<std::int32_t>(std::min<std::size_t>(blocks.size(), 4096));
  read_common(h, absent, config);
  config.num_layers = absent.num_layers;
  config.activation = h.string("mlp_hidden_act", "relu2");
  config.attention_bias = h.boolean("attention_bias", false);
  config.tie_embeddings = false;  // whatever the file says: its head is there
  h.only("moe_latent_size", nullptr);
  h.only("mamba_hidden_act", "silu");
  // Options of training, and options that follow from others or from the tensors.
  for (const std::string_view name :
       {"chunk_size", "expand", "mamba_ssm_cache_dtype", "moe_shared_expert_overlap", "mtp_layers_block_type",
        "n_shared_experts", "rescale_prenorm_residual", "time_step_floor", "time_step_limit", "time_step_max",
        "use_bias", "use_conv_bias", "use_mamba_kernels"})
    h.find(name);
  if (h.find("sliding_window") != nullptr) h.only("sliding_window", 0);
  StateHeads& state = config.state;
  state.num_heads = h.integer("mamba_num_heads", 128);
  state.num_key_heads = h.integer("n_groups", h.integer("mamba_n_groups", 8));
  state.key_size = h.integer("ssm_state_size", 128);
  state.value_size = h.integer("mamba_head_dim", 64);
  state.norm_groups = state.num_key_heads;
  state.least_step = h.number("time_step_min", h.number("mamba_dt_min", 0.001f));
  config.conv_taps = h.integer("conv_kernel", h.integer("mamba_d_conv", 4));
  set_state_size(config);
  ExpertsConfig& experts = config.experts;
  const bool any = std::find(blocks.begin(), blocks.end(), Block::experts) != blocks.end();
  config.rope_layers.assign(static_cast<std::size_t>(absent.num_layers), false);
  for (const Block block : blocks) {
    config.recurrent_layers.push_back(block == Block::mamba);
    config.feed_forward_layers.push_back(block == Block::dense || block == Block::experts);
    experts.layers.push_back(block == Block::experts);
  }
  // These are there whether or not a layer has a mixture.
  const std::int32_t count = h.integer("n_routed_experts", h.integer("num_local_experts", 8));
  h.integer("num_local_experts", 0);
  experts.per_token = h.integer("num_experts_per_tok", 2);
  experts.intermediate_size = h.integer("moe_intermediate_size", 7688);
  const std::int32_t shared = h.integer("moe_shared_expert_intermediate_size", 7688);
  experts.score = ExpertScore::sigmoid;
  experts.renormalize = h.boolean("norm_topk_prob", true);
  experts.scale = h.number("routed_scaling_factor", 1.0f);
  experts.groups = h.integer("n_group", 1);
  experts.groups_used = h.integer("topk_group", 1);
  if (!any) {
    experts = {};
    return;
  }
  experts.count = count;
  experts.shared_intermediate_size = shared;
}

Result<DecoderConfig> describe_nemotron(const ModelConfig& config) {
  auto decoder = mamba2_description(config);
  if (!decoder) return decoder.error();
  for (std::int32_t index = 0; index < config.num_layers; ++index) {
    LayerConfig& layer = decoder->layers[static_cast<std::size_t>(index)];
    if (MixtureConfig* mixture = layer.mixture())
      mixture->expert.gated = false;
    else
      layer.dense()->gated = false;
    if (config.feed_forward_layers[static_cast<std::size_t>(index)]) {
      layer.mixer = NoMixerConfig{};
      layer.mixer_norms.input = false;
    } else {
      layer.feed_forward = NoFeedForwardConfig{};
      layer.feed_forward_norms.input = false;
    }
  }
  return decoder;
}

WeightNames nemotron_names(ModelFormat format) {
  WeightNames names = with_mamba2(llama_names(format), format, "mixer");
  if (format == ModelFormat::gguf) {
    names.mlp_norm = names.attention_norm;
    return names;
  }
  names.prefix = "backbone.";
  names.other_prefixes = {"model.", ""};
  names.token_embedding = "backbone.embeddings";
  names.final_norm = "backbone.norm_f";
  names.layer = "backbone.layers.{}.";
  names.attention_norm = names.mlp_norm = "norm";
  names.query = "mixer.q_proj";
  names.key = "mixer.k_proj";
  names.value = "mixer.v_proj";
  names.attention_output = "mixer.o_proj";
  names.up = "mixer.up_proj";
  names.down = "mixer.down_proj";
  names.experts = hf_expert_names("mixer", "shared_experts");
  // All of them in one tensor: without a gate.
  names.experts.back().gate_up = "";
  names.experts.back().up = "mixer.experts.up_proj";
  return names;
}

// The file does not say the least step, which is the same in all models of the family.
void read_blocks_by_tensor(Hyperparameters& h, ModelConfig& config) {
  read_state_heads(h, config);
  read_kv_heads(h, config);
  config.state.norm_groups = config.state.num_key_heads;
  config.state.least_step = 0.001f;
  for (const std::int32_t inner : h.of_layers("feed_forward_length", config.num_layers)) {
    config.feed_forward_layers.push_back(inner > 0);
    config.intermediate_size = std::max(config.intermediate_size, inner);
  }
  rotate_nothing(config);
  if (config.experts.count > 0) read_layers_with_routers(h, config);
}

void read_gguf_nemotron_h(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "relu2"}, config);
  read_blocks_by_tensor(h, config);
}

void read_gguf_nemotron_h_moe(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "relu2", .experts = {.known = true, .score = ExpertScore::sigmoid}},
                   config);
  read_blocks_by_tensor(h, config);
}

}  // namespace

PAGODA_FAMILY(nemotron_h) = {
    .architecture = "nemotron_h",
    .configs = {{"NemotronHForCausalLM", "NemotronHModel", "nemotron_h", read_nemotron_h}},
    .ggufs = {{"nemotron_h", read_gguf_nemotron_h}, {"nemotron_h_moe", read_gguf_nemotron_h_moe}},
    .describe = describe_nemotron,
    .names = nemotron_names,
    .row = {.name = "Nemotron-H, Nemotron Nano 2, Nemotron 3 Nano 30B-A3B",
            .differs = "each layer is Mamba-2, attention without rotation, or a feed-forward (squared ReLU, "
                       "or a mixture of such); not those with a latent size; one rank only",
            .checked = "transformers",
            .size = "30B-A3B",
            .config = R"({"model_type":"nemotron_h","hidden_size":2688,"num_attention_heads":32,
                       "num_key_value_heads":2,"mamba_num_heads":64,"n_routed_experts":128,
                       "num_experts_per_tok":6,
                       "hybrid_override_pattern":"MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"})"}};

}  // namespace pagoda
