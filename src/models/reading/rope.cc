// Rotation in config.json: transformers 4 writes rope_theta and rope_scaling, transformers 5 rope_parameters,
// for some families an object for each kind of layer. Source: transformers' modeling_rope_utils.
#include <algorithm>
#include <cmath>

#include "models/reading.h"

namespace pagoda {
namespace {

void set_partial(Hyperparameters& h, float factor, ModelConfig& config) {
  if (!(factor > 0) || factor > 1) return h.fail("partial_rotary_factor", "in (0, 1]");
  config.rotary_size = static_cast<std::int32_t>(static_cast<float>(config.head_size) * factor);
}

float required(Hyperparameters& h, Hyperparameters& rope, std::string_view where, std::string_view name) {
  if (rope.find(name) == nullptr) h.fail(concat(where, ".", name), "given");
  return rope.number(name, 1.0f);
}

void read_llama3(Hyperparameters& h, Hyperparameters& rope, std::string_view where, ModelConfig& config) {
  config.rope_scaling = RopeScaling::llama3;
  config.rope_factor = required(h, rope, where, "factor");
  config.rope_low_freq_factor = required(h, rope, where, "low_freq_factor");
  config.rope_high_freq_factor = required(h, rope, where, "high_freq_factor");
}

void read_yarn(Hyperparameters& h, Hyperparameters& rope, ModelConfig& config) {
  config.rope_scaling = RopeScaling::yarn;
  const float original = static_cast<float>(config.rope_original_positions);
  config.rope_factor = rope.number("factor", static_cast<float>(config.max_positions) / original);
  const auto or_default = [&](std::string_view name, float otherwise) {
    const float value = rope.number(name, 0);
    return value == 0 ? otherwise : value;
  };
  config.rope_beta_fast = or_default("beta_fast", 32);
  config.rope_beta_slow = or_default("beta_slow", 1);
  config.rope_truncate = rope.boolean("truncate", true);
  const float mscale = rope.number("mscale", 0), all = rope.number("mscale_all_dim", 0);
  const float scale = mscale != 0 && all != 0
                          ? yarn_scale(config.rope_factor, mscale) / yarn_scale(config.rope_factor, all)
                          : yarn_scale(config.rope_factor, 1);
  config.rope_attention_factor = rope.number("attention_factor", scale);
  for (const Hyperparameters* each : {&h, &rope})
    if (each->find("original_max_position_embeddings") != nullptr) stretch_context(config);
  config.temperature_beta = rope.number("llama_4_scaling_beta", h.number("llama_4_scaling_beta", 0));
  if (config.temperature_beta != 0) config.temperature_positions = config.rope_original_positions;
}

void read_longrope(Hyperparameters& rope, ModelConfig& config) {
  config.rope_scaling = RopeScaling::longrope;
  config.rope_short_factors = rope.numbers("short_factor");
  config.rope_long_factors = rope.numbers("long_factor");
  const float original = static_cast<float>(config.rope_original_positions);
  const float factor = rope.number("factor", static_cast<float>(config.max_positions) / original);
  const float scale = factor <= 1 ? 1.0f : std::sqrt(1 + std::log(factor) / std::log(original));
  config.rope_attention_factor = rope.number("attention_factor", scale);
}

// For sequences beyond max_position_embeddings the base grows with their length; with `alpha` (Hunyuan) it is
// larger from the start.
void read_dynamic(Hyperparameters& rope, ModelConfig& config) {
  const float alpha = rope.number("alpha", 0);
  const auto size = static_cast<float>(config.rotary_size);
  if (alpha > 0 && size > 2) config.rope_theta *= std::pow(alpha, size / (size - 2));
  const float factor = rope.number("factor", 1);
  if (alpha > 0 || !(factor > 1) || size <= 2) return;
  config.rope_scaling = RopeScaling::dynamic;
  config.rope_factor = factor;
  config.rope_original_positions = config.max_positions;
  config.max_positions = static_cast<std::int32_t>(
      std::min(static_cast<double>(config.max_positions) * factor, static_cast<double>(1 << 30)));
}

void read_scaling(Hyperparameters& h, Hyperparameters& rope, std::string_view where, ModelConfig& config,
                  bool may_be_partial) {
  config.rope_theta = rope.number("rope_theta", config.rope_theta);
  const std::string type = rope.string("rope_type", rope.string("type", "default"));
  const float partial = rope.number("partial_rotary_factor", 0);
  if (type == "proportional") {  // frequencies of the whole head, of which the first alone turn
    config.rotary_dims =
        static_cast<std::int32_t>((partial > 0 ? partial : 1.0f) * static_cast<float>(config.head_size / 2)) *
        2;
    config.rope_factor = rope.number("factor", 1);
    if (config.rope_factor != 1) config.rope_scaling = RopeScaling::linear;
    return;
  }
  if (partial > 0 && may_be_partial) set_partial(h, partial, config);
  if (!may_be_partial) rope.only("partial_rotary_factor", 1.0);
  if (type == "default" || type == "mrope") return;  // mrope: text has one position for all sections
  if (type == "linear") {
    config.rope_scaling = RopeScaling::linear;
    config.rope_factor = required(h, rope, where, "factor");
    return;
  }
  if (type == "dynamic") return read_dynamic(rope, config);
  config.rope_original_positions =
      h.integer("original_max_position_embeddings",
                rope.integer("original_max_position_embeddings", config.max_positions));
  if (config.rope_original_positions < 2)
    return h.fail("original_max_position_embeddings", "more than one position");
  if (type == "llama3") {
    read_llama3(h, rope, where, config);
  } else if (type == "yarn") {
    read_yarn(h, rope, config);
  } else if (type == "longrope" || type == "su") {
    read_longrope(rope, config);
  } else {
    h.refuse(concat("config.json: ", where, " type '", printable(type),
                    "' is not supported; supported: default, linear, dynamic, llama3, yarn, longrope, "
                    "proportional"));
  }
}

// Options of one kind of scaling may stand beside another, which does without them.
void sort_others(Hyperparameters& rope, std::string_view where, ModelConfig& config) {
  for (const std::string_view name : {"factor",
                                      "low_freq_factor",
                                      "high_freq_factor",
                                      "original_max_position_embeddings",
                                      "beta_fast",
                                      "beta_slow",
                                      "mscale",
                                      "mscale_all_dim",
                                      "attention_factor",
                                      "truncate",
                                      "short_factor",
                                      "long_factor",
                                      "short_mscale",
                                      "long_mscale",
                                      "alpha",
                                      "mrope_section",
                                      "mrope_interleaved",
                                      "finetuned",
                                      "type",
                                      "max_position_embeddings"})
    rope.find(name);
  for (std::string& option : rope.refuse_unread(concat(where, ".")))
    config.unknown_options.push_back(std::move(option));
}

}  // namespace

void read_rope_object(Hyperparameters& h, Hyperparameters& rope, std::string_view where, ModelConfig& config,
                      bool may_be_partial) {
  read_scaling(h, rope, where, config, may_be_partial);
  sort_others(rope, where, config);
}

void read_rope(Hyperparameters& h, ModelConfig& config, float default_theta, float default_partial) {
  config.rotary_size = config.head_size;
  const bool may_be_partial = default_partial > 0;
  if (may_be_partial)
    set_partial(h, h.number("partial_rotary_factor", default_partial), config);
  else
    h.only("partial_rotary_factor", 1.0);
  config.rope_theta = h.number("rope_theta", default_theta);

  // transformers 5 writes rope_parameters; a rope_scaling beside it wins there, so it does here.
  std::string_view where = "rope_scaling";
  const json::object* object = h.object(where);
  if (object == nullptr || object->empty()) {
    where = "rope_parameters";
    object = h.object(where);
  }
  if (object == nullptr) return;
  Hyperparameters rope(*object, h.shared_status());
  for (const auto& [key, value] : *object) {
    if (!value.is_object()) continue;
    return h.refuse(concat("config.json: '", where, "' for '", printable(key),
                           "' layers is not supported; supported: one for all"));
  }
  read_rope_object(h, rope, where, config, may_be_partial);
}

void read_rope_by_layer(Hyperparameters& h, ModelConfig& config, float default_theta,
                        float default_local_theta, float default_partial) {
  const bool may_be_partial = default_partial > 0;
  config.rope_local_theta = h.number("rope_local_base_freq", default_local_theta);
  const json::object* both = h.object("rope_parameters");
  const json::value* full = both != nullptr ? both->if_contains("full_attention") : nullptr;
  const json::value* sliding = both != nullptr ? both->if_contains("sliding_attention") : nullptr;
  if (full == nullptr && sliding == nullptr) {
    read_rope(h, config, default_theta, default_partial);
    if (may_be_partial) config.rope_local_rotary_size = config.head_size;
    return;
  }
  config.rotary_size = config.head_size;
  config.rope_theta = default_theta;
  for (const json::value* each : {full, sliding}) {
    if (each == nullptr || each->is_null()) continue;
    if (!each->is_object()) return h.fail("rope_parameters", "an object for each kind of layer");
    Hyperparameters rope(each->get_object(), h.shared_status());
    if (each == full) {
      read_rope_object(h, rope, "rope_parameters.full_attention", config, may_be_partial);
      // Which transformers looks for beside the kinds of layers.
      config.rope_truncate = Hyperparameters(*both, h.shared_status()).boolean("truncate", true);
      // A scaling in the older form beside it is of these layers.
      if (const json::object* scaling = h.object("rope_scaling")) {
        Hyperparameters more(*scaling, h.shared_status());
        read_rope_object(h, more, "rope_scaling", config);
      }
    } else {
      rope.only("rope_type", "default");
      config.rope_local_theta = rope.number("rope_theta", config.rope_local_theta);
      const float partial = rope.number("partial_rotary_factor", 1);
      if (!(partial > 0) || partial > 1) h.fail("partial_rotary_factor", "in (0, 1]");
      if (may_be_partial && partial > 0 && partial <= 1)
        config.rope_local_rotary_size =
            static_cast<std::int32_t>(static_cast<float>(config.head_size) * partial);
      sort_others(rope, "rope_parameters.sliding_attention", config);
    }
  }
}

}  // namespace pagoda
