// Mamba-2: Granite 4 (replacing attention in most layers), Falcon-H1 (beside attention), Nemotron-H (layers
// with a single sublayer).
#include <algorithm>

#include "models/reading.h"

namespace pagoda {

// The second value may be infinite, which JSON cannot express as a number.
void read_step_limit(Hyperparameters& h, LinearAttentionConfig& states) {
  const json::value* limit = h.find("time_step_limit");
  const json::array* pair = h.list("time_step_limit");
  if (limit == nullptr) return;
  if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_number())
    return h.fail("time_step_limit", "a list of two numbers");
  states.least_step = (*pair)[0].to_number<float>();
  if ((*pair)[1].is_number())
    states.most_step = (*pair)[1].to_number<float>();
  else if ((*pair)[1] != "Infinity" && (*pair)[1] != json::value{{"__float__", "Infinity"}})
    return h.fail("time_step_limit", "a list of two numbers");
  if (!(states.least_step >= 0) || !(states.least_step <= states.most_step))
    h.fail("time_step_limit", "a list of two numbers, the smaller one first");
}

namespace {

// "mamba_d_head": "auto" is the width divided by the number of heads.
std::int32_t head_size(Hyperparameters& h, std::int64_t width, std::int32_t heads) {
  const json::value* value = h.find("mamba_d_head");
  if (value == nullptr || *value == "auto")
    return heads > 0 ? static_cast<std::int32_t>(std::clamp<std::int64_t>(width / heads, 0, 1 << 24)) : 0;
  return h.integer("mamba_d_head", 0);
}

}  // namespace

LinearAttentionConfig read_mamba(Hyperparameters& h, std::int64_t width) {
  LinearAttentionConfig states = {.delta_rule = false,
                                  .num_heads = h.integer("mamba_n_heads", 128),
                                  .num_key_heads = h.integer("mamba_n_groups", 1),
                                  .key_size = h.integer("mamba_d_state", 256),
                                  .num_taps = h.integer("mamba_d_conv", 4)};
  states.value_size = head_size(h, width, states.num_heads);
  states.norm_groups = states.num_key_heads;
  read_step_limit(h, states);
  return states;
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

// Reads sizes of heads whose state is a matrix, with a norm per group. The tensors show which layers have
// them.
LinearAttentionConfig read_state_heads(Hyperparameters& h) {
  LinearAttentionConfig states = {.delta_rule = false,
                                  .num_heads = h.integer("ssm.time_step_rank"),
                                  .num_key_heads = h.integer("ssm.group_count"),
                                  .key_size = h.integer("ssm.state_size"),
                                  .num_taps = h.integer("ssm.conv_kernel")};
  states.value_size = divide(h.integer("ssm.inner_size"), states.num_heads);
  states.norm_groups = states.num_key_heads;
  h.without_effect("full_attention_interval attention.recurrent_layers");
  return states;
}

std::vector<bool> layers_with_states(const Hyperparameters& h, const ModelInfo& model) {
  const std::set<std::string_view> names = h.tensor_names();
  return layers_where(
      model, [&](std::int32_t layer) { return names.contains(concat("blk.", layer, ".ssm_out.weight")); });
}

void mamba2_names(WeightNames& names, std::string_view mixer) {
  const auto name = [&](const char* part) { return concat(mixer, ".", part); };
  names.conv = name("conv1d");
  names.linear_attention = {.in = name("in_proj"),
                            .rate = name("A_log"),
                            .step_bias = name("dt_bias"),
                            .rate_is_log = true,
                            .skip = name("D"),
                            .norm = name("norm"),
                            .out = name("out_proj")};
}

}  // namespace pagoda
