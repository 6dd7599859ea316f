// config.json of families with Mamba-2 in their layers.
#include <algorithm>

#include "loader/config_families.h"

namespace pagoda {
namespace {

// Bounds of steps: a pair, of which the second may be infinite (which JSON has no number for).
void read_step_limit(Fields& fields, ModelConfig& config) {
  const json::value* limit = fields.find("time_step_limit");
  const json::array* pair = limit != nullptr ? limit->if_array() : nullptr;
  if (limit == nullptr) return;
  if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_number())
    return fields.fail("time_step_limit", "a list of two numbers");
  config.state.least_step = (*pair)[0].to_number<float>();
  if ((*pair)[1].is_number())
    config.state.most_step = (*pair)[1].to_number<float>();
  else if ((*pair)[1] != "Infinity" && (*pair)[1] != json::value{{"__float__", "Infinity"}})
    return fields.fail("time_step_limit", "a list of two numbers");
  if (!(config.state.least_step >= 0) || !(config.state.least_step <= config.state.most_step))
    fields.fail("time_step_limit", "a list of two numbers, the smaller one first");
}

// "mamba_d_head": "auto" is the share of a head.
std::int32_t head_size(Fields& fields, std::int64_t width, std::int32_t heads) {
  const json::value* value = fields.find("mamba_d_head");
  if (value == nullptr || *value == "auto")
    return heads > 0 ? static_cast<std::int32_t>(std::clamp<std::int64_t>(width / heads, 0, 1 << 24)) : 0;
  return fields.integer("mamba_d_head", 0);
}

// As Granite and Falcon-H1 name it; `width` is that of all heads together.
void read_mamba(Fields& fields, std::int64_t width, ModelConfig& config) {
  StateHeads& state = config.state;
  state.num_heads = fields.integer("mamba_n_heads", 128);
  state.num_key_heads = fields.integer("mamba_n_groups", 1);
  state.key_size = fields.integer("mamba_d_state", 256);
  state.value_size = head_size(fields, width, state.num_heads);
  state.norm_groups = state.num_key_heads;
  config.conv_taps = fields.integer("mamba_d_conv", 4);
  read_step_limit(fields, config);
}

std::vector<float> multipliers(Fields& fields, std::string_view name, std::size_t count) {
  if (fields.find(name) == nullptr) return std::vector<float>(count, 1.0f);
  std::vector<float> values = fields.numbers(name);
  if (values.size() != count) fields.fail(name, concat("a list of ", count, " numbers"));
  values.resize(count, 1.0f);
  return values;
}

// What each layer is, by its name in "layers_block_type" or its letter in "hybrid_override_pattern".
enum class Block { mamba, attention, dense, experts };

std::vector<Block> read_blocks(Fields& fields) {
  std::vector<Block> blocks;
  const std::string pattern = fields.string("hybrid_override_pattern", "");
  for (const char letter : pattern) {
    const std::size_t which = std::string_view("M*-E").find(letter);
    if (which == std::string_view::npos) {
      fields.fail("hybrid_override_pattern", "letters M, *, - and E");
      return {};
    }
    blocks.push_back(static_cast<Block>(which));
  }
  std::string_view name = "layers_block_type";
  const json::value* types = fields.find(name);
  if (types == nullptr) types = fields.find(name = "layer_types");
  if (types == nullptr || !blocks.empty()) return blocks;
  const json::array* list = types->if_array();
  if (list == nullptr || list->size() > 4096) {
    fields.fail(name, "a list of at most 4096 strings");
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
      fields.refuse(concat("config.json: layer type ", show(type),
                           " is not supported; supported: mamba, attention, "
                           "mlp, moe"));
  }
  return blocks;
}

}  // namespace

void read_granite_hybrid(Fields& fields, ModelConfig& config) {
  read_granite_moe(fields, config);
  config.experts.shared_intermediate_size = fields.integer("shared_intermediate_size", 1024);
  read_mamba(fields, std::int64_t{fields.integer("mamba_expand", 2)} * config.hidden_size, config);
  set_state_size(config);
  const std::vector<Block> blocks = read_blocks(fields);
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    config.recurrent_layers.push_back(blocks.empty() ||
                                      (static_cast<std::size_t>(layer) < blocks.size() &&
                                       blocks[static_cast<std::size_t>(layer)] == Block::mamba));
  if (std::ranges::find(config.recurrent_layers, true) != config.recurrent_layers.end())
    fields.only("hidden_act", "silu");  // the convolution has it, too
  if (!blocks.empty() && std::ssize(blocks) != config.num_layers)
    fields.fail("layer_types", "a list with one entry for each layer");
  if (fields.find("position_embedding_type") == nullptr ||
      fields.string("position_embedding_type", "") != "rope")
    config.rope_layers.assign(static_cast<std::size_t>(listed_layers(config)), false);
  // Every layer has the expert for all tokens; without others it is the layer's feed-forward.
  if (config.experts.count == 0) config.intermediate_size = config.experts.shared_intermediate_size;
}

void read_falcon_h1(Fields& fields, ModelConfig& config) {
  read_common(fields, {128000, 4096, 14336, 32, 32, 8, 8192, 1e-5f, 10000.0f, 1, 2, 0, false}, config);
  for (const std::string_view bias : {"mlp_bias", "projectors_bias", "mamba_proj_bias"})
    fields.boolean(bias, false);  // as the tensors say
  const std::int64_t expanded = std::int64_t{fields.integer("mamba_expand", 2)} * config.hidden_size;
  const json::value* written = fields.find("mamba_d_ssm");
  read_mamba(fields,
             written != nullptr              ? fields.integer("mamba_d_ssm", 0)
             : fields.written("mamba_d_ssm") ? expanded
                                             : 1024,
             config);
  config.recurrent_layers.assign(static_cast<std::size_t>(listed_layers(config)), true);
  config.state_beside_kv = true;
  fields.only("hidden_act", "silu");  // the convolution has it, too
  set_state_size(config);
  if (!fields.boolean("mamba_rms_norm", false)) config.state.norm_groups = 0;
  config.state.gate_first = !fields.boolean("mamba_norm_before_gate", true);
  const float in = fields.number("ssm_in_multiplier", 1),
              attention = fields.number("attention_in_multiplier", 1);
  const std::vector<float> parts = multipliers(fields, "ssm_multipliers", 5);
  const std::vector<float> mlp = multipliers(fields, "mlp_multipliers", 2);
  for (std::size_t i = 0; i < 5; ++i) config.state.in_factors[i] = in * parts[i];
  config.state.input_factor = in;
  config.state.out_factor = fields.number("ssm_out_multiplier", 1);
  config.factors = {.query = attention,
                    .key = attention * fields.number("key_multiplier", 1),
                    .value = attention,
                    .attention_output = fields.number("attention_out_multiplier", 1),
                    .input = attention,
                    .gate = mlp[0],
                    .down = mlp[1]};
  config.embedding_scale = fields.number("embedding_multiplier", 1);
  config.logit_scale = fields.number("lm_head_multiplier", 1);
}

void read_nemotron_h(Fields& fields, ModelConfig& config) {
  Defaults absent = {131072, 4096, 21504, 0, 32, 8, 4096, 1e-5f, 10000.0f, 1, 2, 0, false, 128};
  absent.eps_name = fields.find("layer_norm_epsilon") != nullptr ? "layer_norm_epsilon" : "rms_norm_eps";
  absent.activation = "relu2";
  std::vector<Block> blocks = read_blocks(fields);
  if (!fields.written("hybrid_override_pattern") && !fields.written("layers_block_type") &&
      !fields.written("layer_types"))
    blocks = {Block::mamba, Block::experts, Block::attention, Block::dense};
  absent.num_layers = static_cast<std::int32_t>(std::min<std::size_t>(blocks.size(), 4096));
  read_common(fields, absent, config);
  config.num_layers = absent.num_layers;
  config.activation = fields.string("mlp_hidden_act", "relu2");
  config.attention_bias = fields.boolean("attention_bias", false);
  config.tie_embeddings = false;  // whatever the file says: its head is there
  fields.only("moe_latent_size", nullptr);
  fields.only("mamba_hidden_act", "silu");
  // Of how it was trained, and of what follows from other fields or from the tensors.
  for (const std::string_view name :
       {"chunk_size", "expand", "mamba_ssm_cache_dtype", "moe_shared_expert_overlap", "mtp_layers_block_type",
        "n_shared_experts", "rescale_prenorm_residual", "time_step_floor", "time_step_limit", "time_step_max",
        "use_bias", "use_conv_bias", "use_mamba_kernels"})
    fields.find(name);
  if (fields.find("sliding_window") != nullptr) fields.only("sliding_window", 0);
  StateHeads& state = config.state;
  state.num_heads = fields.integer("mamba_num_heads", 128);
  state.num_key_heads = fields.integer("n_groups", fields.integer("mamba_n_groups", 8));
  state.key_size = fields.integer("ssm_state_size", 128);
  state.value_size = fields.integer("mamba_head_dim", 64);
  state.norm_groups = state.num_key_heads;
  state.least_step = fields.number("time_step_min", fields.number("mamba_dt_min", 0.001f));
  config.conv_taps = fields.integer("conv_kernel", fields.integer("mamba_d_conv", 4));
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
  const std::int32_t count = fields.integer("n_routed_experts", fields.integer("num_local_experts", 8));
  fields.integer("num_local_experts", 0);
  experts.per_token = fields.integer("num_experts_per_tok", 2);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 7688);
  const std::int32_t shared = fields.integer("moe_shared_expert_intermediate_size", 7688);
  experts.score = ExpertScore::sigmoid;
  experts.renormalize = fields.boolean("norm_topk_prob", true);
  experts.scale = fields.number("routed_scaling_factor", 1.0f);
  experts.groups = fields.integer("n_group", 1);
  experts.groups_used = fields.integer("topk_group", 1);
  if (!any) {
    experts = {};
    return;
  }
  experts.count = count;
  experts.shared_intermediate_size = shared;
}

}  // namespace pagoda
