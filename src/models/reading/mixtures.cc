// Mixtures of experts: how many, how they are chosen, and which layers have them.
#include <algorithm>

#include "models/reading.h"

namespace pagoda {
// transformers writes some h under either of two names.
std::int32_t integer_of(Hyperparameters& h, std::initializer_list<std::string_view> names,
                        std::int32_t otherwise) {
  for (const std::string_view name : names)
    if (h.find(name) != nullptr) return h.integer(name, otherwise);
  return otherwise;
}

std::int32_t num_experts(Hyperparameters& h, std::int32_t otherwise) {
  return integer_of(h, {"num_experts", "num_local_experts", "n_routed_experts"}, otherwise);
}

// An integer, or a list of equal ones, a layer each.
std::int32_t one_of(Hyperparameters& h, std::string_view name, std::int32_t otherwise) {
  const std::vector<std::int32_t> values = h.integers(name);
  if (values.size() > 1)
    h.refuse(concat("config.json: '", name, "' that differs between layers is not supported"));
  return values.empty() ? otherwise : values.front();
}

// Several shared experts are one of so many times the width.
std::int32_t shared_size(Hyperparameters& h, std::string_view name, std::int32_t otherwise,
                         const ExpertsConfig& experts) {
  const std::int64_t size = std::int64_t{one_of(h, name, otherwise)} * experts.intermediate_size;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(size, -1, 1 << 30));
}

void read_deepseek_like(Hyperparameters& h, const DeepSeekDefaults& absent, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, absent.count);
  experts.per_token = h.integer("num_experts_per_tok", absent.per_token);
  experts.intermediate_size = h.integer("moe_intermediate_size", absent.intermediate);
  experts.shared_intermediate_size = shared_size(h, "n_shared_experts", absent.shared, experts);
  experts.score = absent.score;
  experts.renormalize = h.boolean("norm_topk_prob", absent.renormalize);
  experts.scale = h.number("routed_scaling_factor", 1.0f);
  experts.groups = h.integer("n_group", absent.groups);
  experts.groups_used = h.integer("topk_group", absent.groups_used);
  // dots.llm1 has the values that others call topk_method.
  const bool sigmoid = absent.score == ExpertScore::sigmoid;
  if (!sigmoid || h.string("scoring_func", "sigmoid") != "noaux_tc")
    h.only("scoring_func", sigmoid ? "sigmoid" : "softmax");
  const std::int32_t dense = h.integer("first_k_dense_replace", absent.dense);
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    experts.layers.push_back(layer >= dense);
}

void read_mlp_types(Hyperparameters& h, std::int32_t dense, ModelConfig& config) {
  constexpr std::string_view kName = "mlp_layer_types";
  const json::value* types = h.find(kName);
  const json::array* list = types != nullptr ? types->if_array() : nullptr;
  if (types != nullptr && (list == nullptr || static_cast<std::int64_t>(list->size()) != config.num_layers))
    return h.fail(kName, "a list with one entry for each layer");
  config.experts.layers.clear();
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer) {
    if (list == nullptr) {
      config.experts.layers.push_back(layer >= dense);
      continue;
    }
    const json::value& type = (*list)[static_cast<std::size_t>(layer)];
    if (type != "dense" && type != "sparse") h.fail(kName, "\"dense\" or \"sparse\" for each layer");
    config.experts.layers.push_back(type == "sparse");
  }
}

void read_sparse_layers(Hyperparameters& h, ModelConfig& config) {
  const std::int32_t step = h.integer("decoder_sparse_step", 1);
  const std::vector<std::int32_t> dense = h.integers("mlp_only_layers");
  if (step < 1) return h.fail("decoder_sparse_step", "a positive integer");
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    config.experts.layers.push_back((layer + 1) % step == 0 &&
                                    std::find(dense.begin(), dense.end(), layer) == dense.end());
}

// Experts and one that all tokens go through, by a gate.
void read_gated_experts(Hyperparameters& h, std::int32_t count, std::int32_t per_token, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.count = h.integer("num_experts", count);
  experts.per_token = h.integer("num_experts_per_tok", per_token);
  experts.intermediate_size = h.integer("moe_intermediate_size", 512);
  experts.shared_intermediate_size = h.integer("shared_expert_intermediate_size", 512);
  experts.shared_gate = true;
}

// A layer has a mixture if the file has a router for it.
void read_layers_with_routers(Hyperparameters& h, ModelConfig& config) {
  const std::set<std::string_view> names = h.tensor_names();
  for (std::size_t layer = 0; layer < config.experts.layers.size(); ++layer)
    config.experts.layers[layer] = names.contains(concat("blk.", layer, ".ffn_gate_inp.weight"));
}

void read_experts(Hyperparameters& h, const GgufExperts& family, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.count = h.integer("expert_count", 0);
  h.without_effect({"expert_feed_forward_length", "expert_shared_feed_forward_length", "expert_shared_count",
                    "expert_weights_scale", "expert_weights_norm", "expert_gating_func", "expert_group_count",
                    "expert_group_used_count", "leading_dense_block_count", "interleave_moe_layer_step"});
  if (experts.count == 0) return;
  experts.per_token = h.integer("expert_used_count");
  experts.intermediate_size = h.integer("expert_feed_forward_length", config.intermediate_size);
  if (config.intermediate_size == 0) config.intermediate_size = experts.intermediate_size;
  const std::int32_t shared = h.integer("expert_shared_count", 0);
  const std::int64_t shared_size = std::int64_t{shared} * experts.intermediate_size;
  experts.shared_intermediate_size =
      h.integer("expert_shared_feed_forward_length",
                static_cast<std::int32_t>(std::clamp<std::int64_t>(shared_size, -1, 1 << 30)));
  experts.score = family.score;
  switch (const std::int32_t score = h.integer("expert_gating_func", 0)) {
    case 0:
      break;
    case 1:
      experts.score = ExpertScore::softmax;
      break;
    case 2:
      experts.score = ExpertScore::sigmoid;
      break;
    case 3:
      experts.score = ExpertScore::softmax_of_chosen;
      break;
    default:
      h.fail(unimplemented(
          concat("GGUF option 'expert_gating_func' = ", score,
                 " is not supported; supported: 1, 2, 3 (softmax, sigmoid, softmax of those chosen)")));
  }
  experts.renormalize = h.boolean("expert_weights_norm", family.renormalize);
  const float scale = h.number("expert_weights_scale", 1.0f);
  experts.scale = scale == 0 ? 1.0f : scale;
  experts.groups = std::max(h.integer("expert_group_count", 1), 1);
  experts.groups_used = std::max(h.integer("expert_group_used_count", 1), 1);
  const std::int32_t leading = h.integer("leading_dense_block_count", 0);
  const std::int32_t step = std::max(h.integer("interleave_moe_layer_step", 1), 1);
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    experts.layers.push_back(layer >= leading && (layer + 1) % step == 0);
}

}  // namespace pagoda
