// GGUF metadata common to all families.
#include <algorithm>
#include <limits>
#include <numeric>

#include "models/reading.h"

namespace pagoda {
namespace {

// Reads heads and feed-forward size, one value for all layers or one per layer.
void read_layer_sizes(Hyperparameters& h, std::int32_t count, LayerSizes sizes, ModelInfo& model) {
  const std::int32_t drafting = h.integer("nextn_predict_layers", 0);
  const auto of_layers = [&](std::string_view name, std::optional<std::int32_t> absent = std::nullopt) {
    std::vector<std::int32_t> each = h.of_layers(name, count + drafting, absent);
    each.resize(std::min(each.size(), static_cast<std::size_t>(std::max(count, 0))));
    return each;
  };
  const std::vector<std::int32_t> heads = of_layers("attention.head_count");
  const std::vector<std::int32_t> kv_heads =
      h.written("attention.head_count_kv") ? of_layers("attention.head_count_kv") : heads;
  // If all layers have experts, some files omit it.
  const auto absent = h.written("expert_feed_forward_length") ? std::optional<std::int32_t>(0) : std::nullopt;
  const std::vector<std::int32_t> inner = of_layers("feed_forward_length", absent);
  const auto most = [](const std::vector<std::int32_t>& each) {
    return each.empty() ? 0 : *std::ranges::max_element(each);
  };
  sizes.num_heads = most(heads);
  sizes.intermediate_size = most(inner);
  sizes.head_size = h.integer("head_dim", divide(model.decoder.hidden_size, sizes.num_heads));
  make_layers(h, count, sizes, model);
  if (heads.size() != model.decoder.layers.size() || kv_heads.size() != heads.size() ||
      inner.size() != heads.size())
    return;
  for (std::size_t index = 0; index < heads.size(); ++index) {
    LayerConfig& layer = model.decoder.layers[index];
    layer.attention()->num_heads = heads[index];
    layer.attention()->num_kv_heads = kv_heads[index];
    layer.dense()->intermediate_size = inner[index];
  }
}

// A layer has a mixture if the file has a router for it; in a file without routers, if the metadata say so.
std::vector<bool> layers_with_mixtures(Hyperparameters& h, const ModelInfo& model) {
  const std::set<std::string_view> names = h.tensor_names();
  const std::int32_t leading = h.integer("leading_dense_block_count", 0);
  const std::int32_t step = std::max(h.integer("interleave_moe_layer_step", 1), 1);
  return layers_where(model, [&](std::int32_t layer) {
    return names.empty() ? layer >= leading && (layer + 1) % step == 0
                         : names.contains(concat("blk.", layer, ".ffn_gate_inp.weight"));
  });
}

std::int32_t vocabulary_size(Hyperparameters& h) {
  const GgufFile& file = *h.gguf();
  const auto embedding = std::ranges::find(file.tensor_list(), "token_embd.weight", &FileTensor::name);
  if (embedding != file.tensor_list().end())  // the tensor decides, since logits have its rows
    return static_cast<std::int32_t>(
        std::min<std::int64_t>(embedding->shape.front(), std::numeric_limits<std::int32_t>::max()));
  const GgufArray* tokens = file.array("tokenizer.ggml.tokens");
  return h.integer("vocab_size", tokens != nullptr ? static_cast<std::int32_t>(tokens->size()) : 0);
}

}  // namespace

MixtureConfig read_gguf_mixture(Hyperparameters& h, const GgufExperts& family, const ModelInfo& model) {
  MixtureConfig mixture;
  RoutingRule& rule = mixture.routing;
  rule.num_experts = h.integer("expert_count", 0);
  h.without_effect(
      "expert_feed_forward_length expert_shared_feed_forward_length expert_shared_count "
      "expert_weights_scale expert_weights_norm expert_gating_func expert_group_count "
      "expert_group_used_count leading_dense_block_count interleave_moe_layer_step");
  if (rule.num_experts == 0) return mixture;
  rule.per_token = h.integer("expert_used_count");
  mixture.expert.intermediate_size = h.integer("expert_feed_forward_length", model.intermediate_size);
  const std::int64_t shared =
      std::int64_t{h.integer("expert_shared_count", 0)} * mixture.expert.intermediate_size;
  mixture.shared_intermediate_size =
      h.integer("expert_shared_feed_forward_length",
                static_cast<std::int32_t>(std::clamp<std::int64_t>(shared, -1, 1 << 30)));
  mixture.shared_gate = family.shared_gate;
  rule.score = family.score;
  switch (const std::int32_t score = h.integer("expert_gating_func", 0)) {
    case 0:
      break;
    case 1:
      rule.score = RouterScore::softmax;
      break;
    case 2:
      rule.score = RouterScore::sigmoid;
      break;
    case 3:
      rule.score = RouterScore::softmax_of_chosen;
      break;
    default:
      h.fail(unimplemented(
          concat("GGUF option 'expert_gating_func' = ", score,
                 " is not supported; supported: 1, 2, 3 (softmax, sigmoid, softmax of those chosen)")));
  }
  rule.renormalize = h.boolean("expert_weights_norm", family.renormalize);
  const float scale = h.number("expert_weights_scale", 1.0f);
  rule.scale = scale == 0 ? 1.0f : scale;
  rule.num_groups = std::max(h.integer("expert_group_count", 1), 1);
  rule.groups_used = std::max(h.integer("expert_group_used_count", 1), 1);
  return mixture;
}

void read_gguf_common(Hyperparameters& h, const GgufTraits& family, ModelInfo& model) {
  if (h.integer("num_experts", 0) > 0 && !family.experts.known)
    h.fail(unsupported_gguf(concat(model.type, " with experts")));
  DecoderConfig& decoder = model.decoder;
  decoder.vocab_size = vocabulary_size(h);
  decoder.hidden_size = decoder.embedding_size = h.integer("hidden_size");
  decoder.max_positions = h.integer("max_position_embeddings");
  if (decoder.max_positions == decoder.hidden_size && family.context_instead_of_width > 0)
    decoder.max_positions = family.context_instead_of_width;
  // Families with both kinds have RMS norms if the file has that key.
  const bool layer_norm = family.layer_norm && !(family.may_have_rms_norms && h.written("rms_norm_eps"));
  // Blocks after the model's layers are only for drafting tokens.
  read_layer_sizes(
      h, h.integer("num_hidden_layers") - h.integer("num_nextn_predict_layers", 0),
      {.norm_eps = h.number(layer_norm ? "layer_norm_eps" : "rms_norm_eps"), .activation = family.activation},
      model);
  const std::int32_t head_size = decoder.layers.front().attention()->head_size;
  if (!family.latent && h.integer("attention.value_length", head_size) != head_size)
    h.refuse("value heads of another size than key heads are not supported");
  if (family.encoder)
    see_both_sides(decoder);
  else if (!h.boolean("attention.causal", true))
    h.refuse("a model without causal attention is not supported");
  if (h.boolean("use_parallel_residual", false) && !family.parallel && !family.may_be_parallel)
    h.only("use_parallel_residual", false);
  if (family.parallel || (family.may_be_parallel && h.boolean("use_parallel_residual", false)))
    set_parallel(decoder);
  decoder.interleaved_rows = family.interleaved_rows;
  if (layer_norm) layer_norms(decoder);
  use_windows(h, h.integer("sliding_window", 0), {}, model);
  if (family.rotates) read_gguf_rope(h, model);
  if (!family.experts.known || !family.experts.in_layers) return;
  const MixtureConfig mixture = read_gguf_mixture(h, family.experts, model);
  if (model.intermediate_size == 0) model.intermediate_size = mixture.expert.intermediate_size;
  use_mixtures(mixture, layers_with_mixtures(h, model), model);
}

}  // namespace pagoda
