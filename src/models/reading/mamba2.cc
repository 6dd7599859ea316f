// Mamba-2: Granite 4 (instead of attention in most layers), Falcon-H1 (beside it), Nemotron-H (layers that
// are one thing).
#include <algorithm>

#include "models/reading.h"

namespace pagoda {
namespace {

// Bounds of steps: a pair, of which the second may be infinite (which JSON has no number for).
void read_step_limit(Hyperparameters& h, ModelConfig& config) {
  const json::value* limit = h.find("time_step_limit");
  const json::array* pair = limit != nullptr ? limit->if_array() : nullptr;
  if (limit == nullptr) return;
  if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_number())
    return h.fail("time_step_limit", "a list of two numbers");
  config.state.least_step = (*pair)[0].to_number<float>();
  if ((*pair)[1].is_number())
    config.state.most_step = (*pair)[1].to_number<float>();
  else if ((*pair)[1] != "Infinity" && (*pair)[1] != json::value{{"__float__", "Infinity"}})
    return h.fail("time_step_limit", "a list of two numbers");
  if (!(config.state.least_step >= 0) || !(config.state.least_step <= config.state.most_step))
    h.fail("time_step_limit", "a list of two numbers, the smaller one first");
}

// "mamba_d_head": "auto" is the share of a head.
std::int32_t head_size(Hyperparameters& h, std::int64_t width, std::int32_t heads) {
  const json::value* value = h.find("mamba_d_head");
  if (value == nullptr || *value == "auto")
    return heads > 0 ? static_cast<std::int32_t>(std::clamp<std::int64_t>(width / heads, 0, 1 << 24)) : 0;
  return h.integer("mamba_d_head", 0);
}

}  // namespace

// As Granite and Falcon-H1 name it; `width` is that of all heads together.
void read_mamba(Hyperparameters& h, std::int64_t width, ModelConfig& config) {
  StateHeads& state = config.state;
  state.num_heads = h.integer("mamba_n_heads", 128);
  state.num_key_heads = h.integer("mamba_n_groups", 1);
  state.key_size = h.integer("mamba_d_state", 256);
  state.value_size = head_size(h, width, state.num_heads);
  state.norm_groups = state.num_key_heads;
  config.conv_taps = h.integer("mamba_d_conv", 4);
  read_step_limit(h, config);
}

std::vector<Block> read_blocks(Hyperparameters& h) {
  std::vector<Block> blocks;
  const std::string pattern = h.string("hybrid_override_pattern", "");
  for (const char letter : pattern) {
    const std::size_t which = std::string_view("M*-E").find(letter);
    if (which == std::string_view::npos) {
      h.fail("hybrid_override_pattern", "letters M, *, - and E");
      return {};
    }
    blocks.push_back(static_cast<Block>(which));
  }
  std::string_view name = "layers_block_type";
  const json::value* types = h.find(name);
  if (types == nullptr) types = h.find(name = "layer_types");
  if (types == nullptr || !blocks.empty()) return blocks;
  const json::array* list = types->if_array();
  if (list == nullptr || list->size() > 4096) {
    h.fail(name, "a list of at most 4096 strings");
    return blocks;
  }
  for (const json::value& type : *list) {
    if (type == "mamba" || type == "linear_attention")
      blocks.push_back(Block::mamba);
    else if (type == "attention" || type == "full_attention")
      blocks.push_back(Block::attention);
    else if (type == "mlp")
      blocks.push_back(Block::dense);
    else if (type == "moe")
      blocks.push_back(Block::experts);
    else
      h.refuse(concat("config.json: layer type ", show(type),
                      " is not supported; supported: mamba, attention, "
                      "mlp, moe"));
  }
  return blocks;
}

// Sizes of heads with a matrix as their state; layers that have them have their tensors.
void read_state_heads(Hyperparameters& h, ModelConfig& config) {
  const std::set<std::string_view> names = h.tensor_names();
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    config.recurrent_layers.push_back(names.contains(concat("blk.", layer, ".ssm_out.weight")));
  config.conv_taps = h.integer("ssm.conv_kernel");
  config.state.num_heads = h.integer("ssm.time_step_rank");
  config.state.num_key_heads = h.integer("ssm.group_count");
  config.state.key_size = h.integer("ssm.state_size");
  const std::int32_t width = h.integer("ssm.inner_size");
  config.state.value_size = config.state.num_heads > 0 ? width / config.state.num_heads : 0;
  h.without_effect({"full_attention_interval", "attention.recurrent_layers"});
  set_state_size(config);
}

// Key-value heads of the layers that have any, which are alike.
void read_kv_heads(Hyperparameters& h, ModelConfig& config) {
  config.layer_sizes.clear();
  for (const std::int32_t heads : h.of_layers("attention.head_count_kv", config.num_layers))
    config.num_kv_heads = std::max(config.num_kv_heads, heads);
}

LinearAttentionConfig mamba2_of(const ModelConfig& config) {
  return {.delta_rule = false,
          .num_heads = config.state.num_heads,
          .num_key_heads = config.state.num_key_heads,
          .key_size = config.state.key_size,
          .value_size = config.state.value_size,
          .num_taps = config.conv_taps,
          .least_step = config.state.least_step,
          .most_step = config.state.most_step,
          .norm_groups = config.state.norm_groups,
          .gate_first = config.state.gate_first,
          .in_factors = config.state.in_factors,
          .input_factor = config.state.input_factor,
          .out_factor = config.state.out_factor};
}

// Layers that are not recurrent have attention.
Result<DecoderConfig> mamba2_description(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (std::int32_t index = 0; index < config.num_layers; ++index) {
    LayerConfig& layer = decoder->layers[static_cast<std::size_t>(index)];
    if (config.is_recurrent(index)) layer.mixer = mamba2_of(config);
  }
  return decoder;
}

WeightNames with_mamba2(WeightNames names, ModelFormat format, const std::string& mixer) {
  if (format == ModelFormat::gguf) {
    names.conv = "ssm_conv1d";
    names.linear_attention = {.in = "ssm_in",
                              .rate = "ssm_a",
                              .step_bias = "ssm_dt.bias",
                              .skip = "ssm_d",
                              .norm = "ssm_norm",
                              .out = "ssm_out"};
    return names;
  }
  names.conv = mixer + ".conv1d";
  names.linear_attention = {.in = mixer + ".in_proj",
                            .rate = mixer + ".A_log",
                            .step_bias = mixer + ".dt_bias",
                            .rate_is_log = true,
                            .skip = mixer + ".D",
                            .norm = mixer + ".norm",
                            .out = mixer + ".out_proj"};
  return names;
}

}  // namespace pagoda
