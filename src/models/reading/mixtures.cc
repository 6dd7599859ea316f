// Mixtures of experts: their number, their routing, and the layers that have them.
#include <algorithm>

#include "models/reading.h"

namespace pagoda {

std::int32_t integer_of(Hyperparameters& h, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (h.find(name) != nullptr) return h.integer(name, 0);
  for (const std::string_view name : names)
    if (h.default_of(name) != nullptr) return h.integer(name, 0);
  return 0;
}

std::int32_t one_of(Hyperparameters& h, std::string_view name, std::int32_t otherwise) {
  const std::vector<std::int32_t> values = h.integers(name);
  if (values.size() > 1)
    h.refuse(concat("config.json: '", name, "' that differs between layers is not supported"));
  return values.empty() ? otherwise : values.front();
}

std::int32_t shared_size(Hyperparameters& h, std::string_view name, const MixtureConfig& mixture) {
  const std::int64_t size = std::int64_t{one_of(h, name)} * mixture.expert.intermediate_size;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(size, -1, 1 << 30));
}

MixtureConfig read_experts(Hyperparameters& h, const ModelInfo& model) {
  const auto has = [&](std::string_view name) { return h.default_of(name) != nullptr; };
  MixtureConfig mixture;
  RoutingRule& rule = mixture.routing;
  rule.num_experts = has("moe_num_experts")
                         ? h.integer("moe_num_experts")
                         : integer_of(h, {"num_experts", "num_local_experts", "n_routed_experts"});
  rule.per_token =
      has("moe_k") ? h.integer("moe_k") : integer_of(h, {"num_experts_per_tok", "experts_per_token"});
  mixture.expert.intermediate_size =
      has("moe_intermediate_size") ? h.integer("moe_intermediate_size", 0) : model.intermediate_size;
  // Fields that only some families have.
  if (has("norm_topk_prob")) rule.renormalize = h.boolean("norm_topk_prob", true);
  if (has("routed_scaling_factor")) rule.scale = h.number("routed_scaling_factor");
  if (has("shared_expert_intermediate_size"))
    mixture.shared_intermediate_size = h.integer("shared_expert_intermediate_size");
  return mixture;
}

MixtureConfig read_gated_experts(Hyperparameters& h, const ModelInfo& model) {
  MixtureConfig mixture = read_experts(h, model);
  mixture.shared_gate = true;
  return mixture;
}

void use_mixtures(MixtureConfig mixture, const std::vector<bool>& layers, ModelInfo& model) {
  if (mixture.routing.num_experts == 0) return;
  mixture.routing.group_is_best_two = mixture.routing.score == RouterScore::sigmoid;
  for (std::size_t index = 0; index < model.decoder.layers.size(); ++index) {
    if (!layers.empty() && !layers[index]) continue;
    LayerConfig& layer = model.decoder.layers[index];
    mixture.expert.activation = layer.dense()->activation;
    layer.feed_forward = mixture;
  }
}

void read_deepseek_like(Hyperparameters& h, ModelInfo& model) {
  MixtureConfig mixture = read_experts(h, model);
  const bool other = h.default_of("num_shared_experts") != nullptr;
  mixture.shared_intermediate_size =
      shared_size(h, other ? "num_shared_experts" : "n_shared_experts", mixture);
  RoutingRule& rule = mixture.routing;
  rule.num_groups = h.integer("n_group", 1);
  rule.groups_used = h.integer("topk_group", 1);
  // dots.llm1 uses the values that others have in topk_method.
  const bool sigmoid = h.default_of("scoring_func") == nullptr;
  rule.score = sigmoid ? RouterScore::sigmoid : RouterScore::softmax;
  if (!sigmoid || h.string("scoring_func", "sigmoid") != "noaux_tc")
    h.only("scoring_func", sigmoid ? "sigmoid" : "softmax");
  const std::int32_t dense = h.integer("first_k_dense_replace", 0);
  const bool listed = h.find("mlp_layer_types") != nullptr;
  use_mixtures(mixture, listed ? read_mlp_types(h, 0, model) : layers_after(dense, model), model);
}

std::vector<bool> layers_after(std::int32_t dense, const ModelInfo& model) {
  return layers_where(model, [&](std::int32_t layer) { return layer >= dense; });
}

std::vector<bool> read_mlp_types(Hyperparameters& h, std::int32_t dense, const ModelInfo& model) {
  constexpr std::string_view kName = "mlp_layer_types";
  const json::array* const list = list_of_layers(h, kName, model);
  if (list == nullptr) return layers_after(dense, model);
  for (const json::value& type : *list)
    if (type != "dense" && type != "sparse") h.fail(kName, "\"dense\" or \"sparse\" for each layer");
  return layers_where(
      model, [&](std::int32_t layer) { return (*list)[static_cast<std::size_t>(layer)] == "sparse"; });
}

std::vector<bool> read_sparse_layers(Hyperparameters& h, const ModelInfo& model) {
  const std::int32_t step = h.integer("decoder_sparse_step", 1);
  const std::vector<std::int32_t> dense = h.integers("mlp_only_layers");
  if (step < 1) h.fail("decoder_sparse_step", "a positive integer");
  return layers_where(model, [&](std::int32_t layer) {
    return step > 0 && (layer + 1) % step == 0 && std::ranges::find(dense, layer) == dense.end();
  });
}

}  // namespace pagoda
