// Mamba-1: Mamba and Falcon Mamba (in every layer, as Mamba-2 in its own family), Jamba (replacing attention
// in most layers).
#include "models/reading.h"

namespace pagoda {
namespace {

// No file limits the context, and no state depends on it; this is the value that llama.cpp's converter
// writes.
constexpr std::int32_t kUnlimitedContext = 1 << 20;

}  // namespace

std::int32_t read_step_rank(Hyperparameters& h, std::string_view name, const ModelInfo& model) {
  const json::value* value = h.find(name);
  if (value == nullptr || *value == "auto") return (model.decoder.hidden_size - 1) / 16 + 1;
  return h.integer(name, 0);
}

SelectiveScanConfig read_gguf_scan(Hyperparameters& h) {
  return {.num_channels = h.integer("ssm.inner_size"),
          .state_size = h.integer("ssm.state_size"),
          .step_rank = h.integer("ssm.time_step_rank"),
          .num_taps = h.integer("ssm.conv_kernel")};
}

void use_states_alone(const MixerConfig& states, ModelInfo& model) {
  for (LayerConfig& layer : model.decoder.layers) {
    layer.mixer = states;
    layer.feed_forward = NoFeedForwardConfig{};
    layer.feed_forward_norms.input = false;
  }
  model.intermediate_size = 0;
}

void read_states_alone(Hyperparameters& h, ModelInfo& model) {
  read_layers(h, model, {.inner = 0});
  model.decoder.max_positions = h.integer("max_position_embeddings", kUnlimitedContext);
  h.only("hidden_act", "silu");
  h.only("rms_norm", true);
  // Options of training, of other implementations, and of tensors whose presence says the same; also the
  // original code's names of sizes.
  h.without_effect(
      "chunk_size d_inner d_model expand fused_add_norm intermediate_size n_layer norm_before_gate "
      "num_attention_heads pad_vocab_size_multiple rescale_prenorm_residual residual_in_fp32 ssm_cfg "
      "time_step_floor time_step_init_scheme time_step_max time_step_min time_step_scale "
      "use_associative_scan use_bias use_conv_bias use_falcon_mambapy use_mambapy");
}

void read_scans(Hyperparameters& h, ModelInfo& model, SelectiveScanConfig::Norms norms, float norm_eps) {
  read_states_alone(h, model);
  const std::int32_t expanded = times(h.integer("expand", 2), model.decoder.hidden_size);
  use_states_alone(SelectiveScanConfig{.num_channels = h.integer("intermediate_size", expanded),
                                       .state_size = h.integer("state_size", 16),
                                       .step_rank = read_step_rank(h, "time_step_rank", model),
                                       .num_taps = h.integer("conv_kernel", 4),
                                       .norms = norms,
                                       .norm_eps = norm_eps},
                   model);
}

void mamba1_names(WeightNames& names, std::string_view mixer) {
  const auto name = [&](const char* part) { return concat(mixer, ".", part); };
  names.conv = name("conv1d");
  names.linear_attention = {.in = name("in_proj"),
                            .scanned = name("x_proj"),
                            .step = name("dt_proj"),
                            .step_norm = name("dt_layernorm"),
                            .key_norm = name("b_layernorm"),
                            .query_norm = name("c_layernorm"),
                            .rate = name("A_log"),
                            .rate_is_log = true,
                            .skip = name("D"),
                            .out = name("out_proj")};
}

void states_alone_names(WeightNames& names) {
  names.prefix = "backbone.";
  names.other_prefixes = {"model.", ""};
  names.token_embedding = "backbone.embeddings";
  names.final_norm = "backbone.norm_f";
  names.layer = "backbone.layers.{}.";
  names.attention_norm = names.mlp_norm = "norm";
}

void beside_states_names(WeightNames& names) {
  names.final_norm = "model.final_layernorm";
  names.mlp_norm = "pre_ff_layernorm";
  names.gate = "feed_forward.gate_proj";
  names.up = "feed_forward.up_proj";
  names.down = "feed_forward.down_proj";
}

void states_alone_gguf_names(WeightNames& names) { names.mlp_norm = names.attention_norm; }

}  // namespace pagoda
