// Mixtures of experts: how many, how they are chosen, and which layers have them.
#include <algorithm>

#include "models/reading.h"

namespace pagoda {
// transformers writes some fields under either of two names.
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
                         const MixtureConfig& mixture) {
  const std::int64_t size = std::int64_t{one_of(h, name, otherwise)} * mixture.expert.intermediate_size;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(size, -1, 1 << 30));
}

MixtureConfig read_experts(Hyperparameters& h, const ExpertDefaults& absent, const ModelInfo& model) {
  MixtureConfig mixture;
  mixture.routing.num_experts = num_experts(h, absent.count);
  mixture.routing.per_token = h.integer("num_experts_per_tok", absent.per_token);
  mixture.expert.intermediate_size = absent.intermediate > 0
                                         ? h.integer("moe_intermediate_size", absent.intermediate)
                                         : model.intermediate_size;
  return mixture;
}

MixtureConfig read_gated_experts(Hyperparameters& h, std::int32_t count, std::int32_t per_token,
                                 const ModelInfo& model) {
  MixtureConfig mixture =
      read_experts(h, {.count = count, .per_token = per_token, .intermediate = 512}, model);
  mixture.shared_intermediate_size = h.integer("shared_expert_intermediate_size", 512);
  mixture.shared_gate = true;
  mixture.routing.renormalize = h.boolean("norm_topk_prob", true);
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

void read_deepseek_like(Hyperparameters& h, const DeepSeekDefaults& absent, ModelInfo& model) {
  MixtureConfig mixture = read_experts(
      h, {.count = absent.count, .per_token = absent.per_token, .intermediate = absent.intermediate}, model);
  mixture.shared_intermediate_size = shared_size(h, absent.shared_name, absent.shared, mixture);
  RoutingRule& rule = mixture.routing;
  rule.score = absent.score;
  rule.renormalize = h.boolean("norm_topk_prob", absent.renormalize);
  rule.scale = h.number("routed_scaling_factor", absent.scale);
  rule.num_groups = h.integer("n_group", absent.groups);
  rule.groups_used = h.integer("topk_group", absent.groups_used);
  // dots.llm1 has the values that others call topk_method.
  const bool sigmoid = absent.score == RouterScore::sigmoid;
  if (!sigmoid || h.string("scoring_func", "sigmoid") != "noaux_tc")
    h.only("scoring_func", sigmoid ? "sigmoid" : "softmax");
  const std::int32_t dense = h.integer("first_k_dense_replace", absent.dense);
  const bool listed = h.find("mlp_layer_types") != nullptr;
  use_mixtures(mixture, listed ? read_mlp_types(h, 0, model) : layers_behind(dense, model), model);
}

std::vector<bool> layers_behind(std::int32_t dense, const ModelInfo& model) {
  return layers_where(model, [&](std::int32_t layer) { return layer >= dense; });
}

std::vector<bool> read_mlp_types(Hyperparameters& h, std::int32_t dense, const ModelInfo& model) {
  constexpr std::string_view kName = "mlp_layer_types";
  const json::array* const list = list_of_layers(h, kName, model);
  if (list == nullptr) return layers_behind(dense, model);
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
