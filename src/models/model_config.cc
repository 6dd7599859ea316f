#include "models/model_config.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "loader/printable.h"

namespace pagoda {

namespace {

Status check_experts(const ModelConfig& config) {
  const ExpertsConfig& experts = config.experts;
  if (experts.count == 0) return ok_status();
  constexpr std::int32_t kMost = 65536, kWidest = 1 << 24;
  if (experts.count < 0 || experts.count > kMost)
    return corrupt_data(
        concat("the model's number of experts is ", experts.count, ", not between 1 and ", kMost));
  if (experts.groups < 1 || experts.groups_used < 1 || experts.groups_used > experts.groups ||
      experts.count % experts.groups != 0)
    return corrupt_data(concat(experts.count, " experts cannot be in ", experts.groups,
                               " groups of which a token uses ", experts.groups_used));
  const std::int32_t choice = experts.count / experts.groups * experts.groups_used;
  if (experts.per_token < 1 || experts.per_token > choice)
    return corrupt_data(concat("a token cannot use ", experts.per_token, " of ", choice, " experts"));
  if (experts.intermediate_size < 1 || experts.intermediate_size > kWidest ||
      experts.shared_intermediate_size < 0 || experts.shared_intermediate_size > kWidest)
    return corrupt_data(concat("experts of ", experts.intermediate_size, " features and a shared one of ",
                               experts.shared_intermediate_size, " are not plausible"));
  if (!std::isfinite(experts.shared_scale) || experts.shared_scale <= 0)
    return corrupt_data(concat("the model's scale of its shared expert is ", experts.shared_scale,
                               ", not a positive number"));
  if (!std::isfinite(experts.scale) || experts.scale <= 0)
    return corrupt_data(concat("the model's scale of experts is ", experts.scale, ", not a positive number"));
  if (!experts.layers.empty() && experts.layers.size() != static_cast<std::size_t>(config.num_layers))
    return corrupt_data("mixtures are not given for every layer");
  return ok_status();
}

bool is_for_each_layer(const std::vector<bool>& flags, const ModelConfig& config) {
  return flags.empty() || flags.size() == static_cast<std::size_t>(config.num_layers);
}

Status check_latent(const ModelConfig& config) {
  const LatentConfig& latent = config.latent;
  if (latent.rank == 0) return ok_status();
  constexpr std::int32_t kWidest = 1 << 16;
  for (const std::int32_t size : {latent.rank, latent.nope_size, latent.rope_size, latent.value_size})
    if (size < 1 || size > kWidest)
      return corrupt_data(
          concat("a size of the model's latent attention is ", size, ", not between 1 and ", kWidest));
  if (latent.query_rank < 0 || latent.query_rank > 1 << 20)
    return corrupt_data(concat("the rank of the model's queries is ", latent.query_rank));
  if (latent.rope_size != config.rotary_size || latent.nope_size + latent.rope_size != config.head_size)
    return corrupt_data(concat("heads of ", latent.nope_size, " and ", latent.rope_size,
                               " rotated elements do not fit together"));
  const std::int64_t most =
      std::int64_t{config.num_layers} * (config.num_heads + 1) * (latent.row_size() + latent.value_size);
  if (most > std::int64_t{1} << 30)
    return corrupt_data(
        concat(config.num_heads, " heads over rows of ", latent.row_size(), " elements are not plausible"));
  return ok_status();
}

// Each layer's sizes, where they differ; the model's own bound them, as later arithmetic relies on.
Status check_layers(const ModelConfig& config) {
  if (config.shared_kv_layers < 0 || config.shared_kv_layers >= config.num_layers)
    return corrupt_data(concat(config.shared_kv_layers, " of ", config.num_layers,
                               " layers cannot read the keys and values of earlier ones"));
  if (config.layer_input_size < 0 || config.layer_input_size > 1 << 16)
    return corrupt_data(
        concat("inputs of layers of ", config.layer_input_size, " features are not plausible"));
  if (!config.recurrent_layers.empty() &&
      (config.recurrent_layers.size() != static_cast<std::size_t>(config.num_layers) ||
       config.conv_taps < 2 || config.conv_taps > 64 || config.state_size < 0 ||
       config.state_size > std::int64_t{1} << 32))
    return corrupt_data(concat("layers with convolutions over ", config.conv_taps,
                               " tokens, or not told for every layer, are not plausible"));
  if (!is_for_each_layer(config.feed_forward_layers, config) ||
      !is_for_each_layer(config.rope_layers, config))
    return corrupt_data("what layers are is not told for every layer");
  if (config.num_streams < 1 || config.num_streams > 64 || config.learned_residual < 0 ||
      config.learned_residual > 1 << 16 || config.layer_input_rows < 0)
    return corrupt_data(concat(config.num_streams, " residual streams and a way around mixers of rank ",
                               config.learned_residual, " are not plausible"));
  if (!config.sparse_cutoffs.empty() &&
      (config.sparse_cutoffs.size() != static_cast<std::size_t>(config.num_layers) ||
       std::ranges::any_of(config.sparse_cutoffs, [](float cutoff) { return !(cutoff < 1000); })))
    return corrupt_data("cutoffs of features are no numbers, one for each layer");
  if (config.layer_sizes.empty()) return ok_status();
  if (config.layer_sizes.size() != static_cast<std::size_t>(config.num_layers))
    return corrupt_data("sizes are not given for every layer");
  for (std::size_t index = 0; index < config.layer_sizes.size(); ++index) {
    const LayerSizes& layer = config.layer_sizes[index];
    const std::int32_t heads = layer.num_heads > 0 ? layer.num_heads : config.num_heads;
    const std::int32_t least = config.experts.in_layer(static_cast<std::int32_t>(index)) ? 0 : 1;
    if (layer.num_heads < 0 || heads > config.num_heads || layer.num_kv_heads < 1 ||
        heads % layer.num_kv_heads != 0 || layer.head_size < 1 || layer.head_size > config.head_size ||
        layer.intermediate_size < least || layer.intermediate_size > 1 << 24)
      return corrupt_data(concat("a layer of ", heads, " heads, ", layer.num_kv_heads,
                                 " of them for keys and values, of size ", layer.head_size, ", and ",
                                 layer.intermediate_size, " features is not plausible"));
  }
  return ok_status();
}

}  // namespace

void set_state_size(ModelConfig& config) {
  constexpr std::int32_t kMost = 1 << 16;  // beyond it nothing is plausible, and products may overflow
  const StateHeads& state = config.state;
  for (const std::int32_t size :
       {state.num_heads, state.num_key_heads, state.key_size, state.value_size, config.conv_taps}) {
    if (size >= 1 && size <= kMost) continue;
    config.state_size = -1;
    return;
  }
  const std::int64_t keys = std::int64_t{state.num_key_heads} * state.key_size,
                     values = std::int64_t{state.num_heads} * state.value_size;
  config.state_size = (config.conv_taps - 1) * (2 * keys + values) + values * state.key_size;
}

float yarn_scale(float factor, float weight) {
  return factor <= 1 ? 1.0f : 0.1f * weight * std::log(factor) + 1.0f;
}

void stretch_context(ModelConfig& config) {
  const double stretched = static_cast<double>(config.rope_original_positions) * config.rope_factor;
  if (stretched > config.max_positions && stretched <= static_cast<double>(1 << 30))
    config.max_positions = static_cast<std::int32_t>(stretched);
}

Status finish_config(ModelConfig& config) {
  struct Bound {
    const char* name;
    std::int64_t value;
    std::int64_t limit;
  };
  constexpr std::int64_t kLarge = std::int64_t{1} << 24;
  const Bound bounds[] = {
      {"vocabulary size", config.vocab_size, kLarge},
      {"hidden size", config.hidden_size, std::int64_t{1} << 20},
      {"number of layers", config.num_layers, 4096},
      {"number of attention heads", config.num_heads, 1 << 16},
      {"number of key/value heads", config.num_kv_heads, 1 << 16},
      {"head size", config.head_size, 1 << 16},
      {"feed-forward size", config.intermediate_size, kLarge},
      {"context length", config.max_positions, std::int64_t{1} << 30},
      {"embedding size", config.embedding_size, std::int64_t{1} << 20},
  };
  for (const Bound& bound : bounds) {
    if (bound.value < 1 || bound.value > bound.limit) {
      return corrupt_data(
          concat("the model's ", bound.name, " is ", bound.value, ", not between 1 and ", bound.limit));
    }
  }
  if (std::int64_t{config.num_heads} * config.head_size > kLarge) {
    return corrupt_data(concat(config.num_heads, " heads of size ", config.head_size, " are not plausible"));
  }
  // Keeps layers * heads * head size * positions * 8 bytes (a full KV cache) inside 64 bits.
  if (std::int64_t{config.num_layers} * config.num_heads * config.head_size > (std::int64_t{1} << 28)) {
    return corrupt_data(concat(config.num_layers, " layers of ", config.num_heads, " heads of size ",
                               config.head_size, " are not plausible"));
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    return corrupt_data(concat("the number of attention heads, ", config.num_heads,
                               ", is not a multiple of the number of key/value heads, ",
                               config.num_kv_heads));
  }
  if ((config.rotary_size != 0 || config.rotates) &&
      (config.rotary_size < 1 || config.rotary_size > config.head_size || config.rotary_size % 2 != 0)) {
    return corrupt_data(concat("the rotary dimension ", config.rotary_size, " does not fit a head size of ",
                               config.head_size));
  }
  const struct {
    const char* name;
    float value;
  } positives[] = {
      {"norm epsilon", config.norm_eps},
      {"rope theta", config.rope_theta},
      {"rope scaling factor", config.rope_factor},
      {"rope low_freq_factor", config.rope_low_freq_factor},
      {"rope high_freq_factor", config.rope_high_freq_factor},
      {"embedding scale", config.embedding_scale},
      {"residual scale", config.residual_scale},
      {"logit scale", config.logit_scale},
      {"rope attention factor", config.rope_attention_factor},
      {"rope beta_fast", config.rope_beta_fast},
      {"rope beta_slow", config.rope_beta_slow},
  };
  for (const auto& positive : positives) {
    if (!std::isfinite(positive.value) || positive.value <= 0) {
      return corrupt_data(
          concat("the model's ", positive.name, " is ", positive.value, ", not a positive number"));
    }
  }
  if (config.rope_scaling == RopeScaling::llama3 &&
      (config.rope_original_positions < 1 || config.rope_high_freq_factor <= config.rope_low_freq_factor)) {
    return corrupt_data(
        "llama3 rope scaling needs original_max_position_embeddings and high_freq_factor > low_freq_factor");
  }
  if (config.rope_scaling == RopeScaling::yarn &&
      (config.rope_original_positions < 1 || config.rope_theta <= 1))
    return corrupt_data("yarn rope scaling needs original_max_position_embeddings and a rope theta above 1");
  for (const std::vector<float>* factors : {&config.rope_short_factors, &config.rope_long_factors}) {
    const bool positive = std::ranges::all_of(*factors, [](float f) { return std::isfinite(f) && f > 0; });
    if (!factors->empty() &&
        (!positive || factors->size() != static_cast<std::size_t>(config.rotary_size / 2)))
      return corrupt_data("longrope needs a positive factor for each rotated pair");
  }
  if (config.rotary_dims < 0 || config.rotary_dims > config.rotary_size)
    return corrupt_data("more dimensions of a head turn than it has");
  for (const float cap :
       {config.attention_softcap, config.logit_softcap, config.temperature_beta, config.alibi_max,
        config.attention_clip, config.experts.near, config.branch_norm_eps})
    if (!std::isfinite(cap) || cap < 0)
      return corrupt_data(concat("a soft cap, limit or slope of the model is ", cap));
  PAGODA_RETURN_IF_ERROR(check_experts(config));
  PAGODA_RETURN_IF_ERROR(check_latent(config));
  PAGODA_RETURN_IF_ERROR(check_layers(config));
  if (config.sliding_window < 0) return corrupt_data("the sliding window is negative");
  for (const std::vector<bool>* layers : {&config.window_layers, &config.rope_layers}) {
    if (!layers->empty() && layers->size() != static_cast<std::size_t>(config.num_layers))
      return corrupt_data("windows or rotations are not given for every layer");
  }
  if (!std::isfinite(config.rope_local_theta) || config.rope_local_theta < 0)
    return corrupt_data(concat("the model's local rope theta is ", config.rope_local_theta));
  if (config.rope_local_rotary_size < 0 || config.rope_local_rotary_size > config.head_size ||
      config.rope_local_rotary_size % 2 != 0)
    return corrupt_data(concat(config.rope_local_rotary_size, " rotated dimensions of heads with a window"));
  if (!std::isfinite(config.attention_scale) || config.attention_scale < 0)
    return corrupt_data(concat("the model's attention scale is ", config.attention_scale));

  const auto outside = [&](std::int32_t id) { return id < 0 || id >= config.vocab_size; };
  if (outside(config.bos_token_id)) config.bos_token_id = -1;
  if (outside(config.pad_token_id)) config.pad_token_id = -1;
  std::erase_if(config.eos_token_ids, outside);
  return ok_status();
}

Result<std::string> normalize_activation(std::string_view name) {
  if (name == "silu" || name == "swish") return std::string("silu");
  if (name == "relu" || name == "relu2") return std::string(name);
  if (name == "gelu" || name == "gelu_python") return std::string("gelu");
  // The tanh approximation, under the names of its implementations.
  if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_pytorch_tanh" ||
      name == "gelu_python_tanh" || name == "gelu_accurate") {
    return std::string("gelu_new");
  }
  return unimplemented(
      concat("activation '", printable(name),
             "' is not supported; supported: silu, relu, relu2, gelu, gelu_new, gelu_pytorch_tanh"));
}

std::string describe_unknown_options(const ModelConfig& config) {
  if (config.unknown_options.empty()) return "";
  std::string names;
  for (const std::string& name : config.unknown_options) names += concat(names.empty() ? "" : ", ", name);
  return concat("options of the model that are not known were left aside: ", names);
}

}  // namespace pagoda
