// config.json of families most of whose layers keep a state instead of keys and values.
#include <algorithm>

#include "loader/config_families.h"

namespace pagoda {
namespace {

// Layers called `recurrent` keep a state, those of full attention do not. Empty: not told.
std::vector<bool> recurrent_layers(Fields& fields, std::string_view recurrent, const ModelConfig& config) {
  std::vector<bool> layers;
  const json::value* types = fields.find("layer_types");
  if (types == nullptr) return layers;
  const json::array* list = types->if_array();
  if (list == nullptr || static_cast<std::int64_t>(list->size()) != config.num_layers) {
    fields.fail("layer_types", "a list with one entry for each layer");
    return layers;
  }
  for (const json::value& type : *list) {
    const bool keeps_state = type.is_string() && std::string_view(type.get_string()) == recurrent;
    if (!keeps_state && type != "full_attention")
      fields.refuse(concat("config.json: layer type ", show(type),
                           " is not supported; supported: ", recurrent, ", full_attention"));
    layers.push_back(keeps_state);
  }
  return layers;
}

// Names of the first files are also understood.
void read_lfm2_like(Fields& fields, Defaults absent, ModelConfig& config) {
  absent.eps_name = "norm_eps";
  absent.rope_theta = fields.number("theta", absent.rope_theta);
  read_common(fields, absent, config);
  config.tie_embeddings = fields.boolean("tie_embedding", config.tie_embeddings);
  config.conv_taps = fields.integer("conv_L_cache", 3);
  config.state_size = (std::int64_t{config.conv_taps} - 1) * config.hidden_size;
  config.recurrent_layers = recurrent_layers(fields, "conv", config);
}

// Gated delta nets between attention with gates for its outputs (Qwen3-Next, Qwen3.5).
void read_delta_net(Fields& fields, ModelConfig& config) {
  config.norm_weight_offset = 1;
  config.conv_taps = fields.integer("linear_conv_kernel_dim", 4);
  config.state = {.num_heads = fields.integer("linear_num_value_heads", 32),
                  .num_key_heads = fields.integer("linear_num_key_heads", 16),
                  .key_size = fields.integer("linear_key_head_dim", 128),
                  .value_size = fields.integer("linear_value_head_dim", 128)};
  set_state_size(config);
  fields.only("attn_output_gate", true);
  fields.only("use_sliding_window", false);
  fields.only("hidden_act", "silu");  // the convolution has it, too
  config.recurrent_layers = recurrent_layers(fields, "linear_attention", config);
  const std::int32_t interval = fields.integer("full_attention_interval", 4);
  if (!config.recurrent_layers.empty()) return;
  if (interval < 1) return fields.fail("full_attention_interval", "a positive integer");
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    config.recurrent_layers.push_back((layer + 1) % interval != 0);
}

// Experts and one that all tokens go through, by a gate.
void read_gated_experts(Fields& fields, std::int32_t count, std::int32_t per_token, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.count = fields.integer("num_experts", count);
  experts.per_token = fields.integer("num_experts_per_tok", per_token);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 512);
  experts.shared_intermediate_size = fields.integer("shared_expert_intermediate_size", 512);
  experts.shared_gate = true;
}

}  // namespace

void read_qwen3_next(Fields& fields, ModelConfig& config) {
  read_common(fields, {151936, 2048, 5632, 48, 16, 2, 32768, 1e-6f, 10000.0f, -1, -1, -1, false, 256, 0.25f},
              config);
  read_delta_net(fields, config);
  read_gated_experts(fields, 512, 10, config);
  config.experts.renormalize = fields.boolean("norm_topk_prob", true);
  read_sparse_layers(fields, config);
}

void read_qwen3_5(Fields& fields, ModelConfig& config) {
  read_common(fields, {248320, 4096, 12288, 32, 16, 4, 32768, 1e-6f, 10000.0f, -1, -1, -1, false, 256, 0.25f},
              config);
  read_delta_net(fields, config);
}

void read_qwen3_5_moe(Fields& fields, ModelConfig& config) {
  read_common(fields, {248320, 2048, 512, 40, 16, 2, 32768, 1e-6f, 10000.0f, -1, -1, -1, false, 256, 0.25f},
              config);
  read_delta_net(fields, config);
  read_gated_experts(fields, 256, 8, config);
  config.experts.renormalize = true;
  fields.only("norm_topk_prob", true);
}

void read_lfm2(Fields& fields, ModelConfig& config) {
  read_lfm2_like(fields, {65536, 2560, 12288, 32, 32, 8, 128000, 1e-5f, 1000000.0f, 1, 2, 0, true}, config);
  if (config.recurrent_layers.empty()) {
    const bool written = fields.find("full_attn_idxs") != nullptr;
    const std::vector<std::int32_t> full = fields.integers("full_attn_idxs");
    for (std::int32_t layer = 0; layer < listed_layers(config) && written; ++layer)
      config.recurrent_layers.push_back(std::find(full.begin(), full.end(), layer) == full.end());
  }
  fields.find("full_attn_idxs");  // which layer_types says, too
  if (std::ranges::find(config.recurrent_layers, true) == config.recurrent_layers.end())
    config.recurrent_layers.clear();
  std::int64_t inner = fields.integer("block_ff_dim", config.intermediate_size);
  if (fields.boolean("block_auto_adjust_ff_dim", true)) {
    const std::int64_t multiple = fields.integer("block_multiple_of", 256);
    if (multiple < 1 || inner < 1) return fields.fail("block_multiple_of", "a positive integer");
    const double scale = fields.number("block_ffn_dim_multiplier", 1.0f);
    inner = static_cast<std::int64_t>(
        std::clamp(scale * static_cast<double>(2 * inner / 3), 0.0, double{1 << 30}));
    inner = std::min<std::int64_t>((inner + multiple - 1) / multiple * multiple, 1 << 30);
  }
  config.intermediate_size = static_cast<std::int32_t>(inner);
}

void read_lfm2_moe(Fields& fields, ModelConfig& config) {
  read_lfm2_like(fields, {65536, 2048, 7168, 32, 32, 8, 128000, 1e-5f, 1000000.0f, 1, 2, 0, true}, config);
  ExpertsConfig& experts = config.experts;
  experts.count = fields.integer("num_experts", 32);
  experts.per_token = fields.integer("num_experts_per_tok", 4);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 1792);
  experts.score = ExpertScore::sigmoid;
  experts.renormalize = fields.boolean("norm_topk_prob", true);
  experts.scale = fields.number("routed_scaling_factor", 1.0f);
  const std::int32_t dense = fields.integer("num_dense_layers", 2);
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    experts.layers.push_back(layer >= dense);
}

}  // namespace pagoda
