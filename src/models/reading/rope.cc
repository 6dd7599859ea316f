// Rotation in config.json: transformers 4 writes rope_theta and rope_scaling, transformers 5 rope_parameters,
// with an object per kind of layer for some families. Source: transformers' modeling_rope_utils.
#include <algorithm>
#include <cmath>

#include "models/reading.h"

namespace pagoda {
namespace {

std::int32_t largest_head(const DecoderConfig& decoder) {
  std::int32_t size = 0;
  for (const LayerConfig& layer : decoder.layers)
    if (const AttentionConfig* const attention = layer.attention())
      size = std::max(size, attention->head_size);
  return size;
}

void set_partial(Hyperparameters& h, float factor, DecoderConfig& decoder) {
  if (!(factor > 0) || factor > 1) return h.fail("partial_rotary_factor", "in (0, 1]");
  decoder.ropes.front().rotary_size =
      static_cast<std::int32_t>(static_cast<float>(largest_head(decoder)) * factor);
}

// True if the family has a default for the rotated share of a head.
bool may_be_partial(const Hyperparameters& h) { return h.default_of("partial_rotary_factor") != nullptr; }

float required(Hyperparameters& h, Hyperparameters& rope, std::string_view where, std::string_view name) {
  if (rope.find(name) == nullptr) h.fail(concat(where, ".", name), "given");
  return rope.number(name, 1.0f);
}

void read_llama3(Hyperparameters& h, Hyperparameters& rope, std::string_view where, RopeConfig& to) {
  to.scaling = RopeScaling::llama3;
  to.factor = required(h, rope, where, "factor");
  to.low_freq_factor = required(h, rope, where, "low_freq_factor");
  to.high_freq_factor = required(h, rope, where, "high_freq_factor");
}

void read_yarn(Hyperparameters& h, Hyperparameters& rope, DecoderConfig& decoder) {
  RopeConfig& to = decoder.ropes.front();
  to.scaling = RopeScaling::yarn;
  const auto original = static_cast<float>(to.original_positions);
  to.factor = rope.number("factor", static_cast<float>(decoder.max_positions) / original);
  const auto or_default = [&](std::string_view name, float otherwise) {
    const float value = rope.number(name, 0);
    return value == 0 ? otherwise : value;
  };
  to.beta_fast = or_default("beta_fast", 32);
  to.beta_slow = or_default("beta_slow", 1);
  to.truncate = rope.boolean("truncate", true);
  const float mscale = rope.number("mscale", 0), all = rope.number("mscale_all_dim", 0);
  const float scale = mscale != 0 && all != 0 ? yarn_scale(to.factor, mscale) / yarn_scale(to.factor, all)
                                              : yarn_scale(to.factor, 1);
  to.attention_factor = rope.number("attention_factor", scale);
  for (const Hyperparameters* each : {&h, &rope})
    if (each->find("original_max_position_embeddings") != nullptr) stretch_context(decoder);
  const float beta = rope.number("llama_4_scaling_beta", h.number("llama_4_scaling_beta", 0));
  if (beta != 0) set_query_temperature(beta, to.original_positions, decoder);
}

void read_longrope(Hyperparameters& rope, std::int32_t max_positions, RopeConfig& to) {
  to.scaling = RopeScaling::longrope;
  to.divisors = rope.numbers("short_factor");
  to.long_divisors = rope.numbers("long_factor");
  const auto original = static_cast<float>(to.original_positions);
  const float factor = rope.number("factor", static_cast<float>(max_positions) / original);
  const float scale = factor <= 1 ? 1.0f : std::sqrt(1 + std::log(factor) / std::log(original));
  to.attention_factor = rope.number("attention_factor", scale);
}

// The base grows with the length of sequences beyond max_position_embeddings; with `alpha` (Hunyuan) it is
// larger from the start.
void read_dynamic(Hyperparameters& rope, DecoderConfig& decoder) {
  RopeConfig& to = decoder.ropes.front();
  const float alpha = rope.number("alpha", 0);
  const auto size = static_cast<float>(to.rotary_size);
  if (alpha > 0 && size > 2) to.theta *= std::pow(alpha, size / (size - 2));
  const float factor = rope.number("factor", 1);
  if (alpha > 0 || !(factor > 1) || size <= 2) return;
  to.scaling = RopeScaling::dynamic;
  to.factor = factor;
  to.original_positions = decoder.max_positions;
  decoder.max_positions = static_cast<std::int32_t>(
      std::min(static_cast<double>(decoder.max_positions) * factor, static_cast<double>(1 << 30)));
}

void read_scaling(Hyperparameters& h, Hyperparameters& rope, std::string_view where, DecoderConfig& decoder,
                  bool may_be_partial) {
  RopeConfig& to = decoder.ropes.front();
  to.theta = rope.number("rope_theta", to.theta);
  const std::string type = rope.string("rope_type", rope.string("type", "default"));
  const float partial = rope.number("partial_rotary_factor", 0);
  if (type == "proportional") {  // frequencies of the whole head, of which only the first rotate
    const auto pairs = static_cast<float>(largest_head(decoder) / 2);
    to.turned = static_cast<std::int32_t>((partial > 0 ? partial : 1.0f) * pairs) * 2;
    to.factor = rope.number("factor", 1);
    if (to.factor != 1) to.scaling = RopeScaling::linear;
    return;
  }
  if (partial > 0 && may_be_partial) set_partial(h, partial, decoder);
  if (!may_be_partial) rope.only("partial_rotary_factor", 1.0);
  if (type == "default" || type == "mrope") return;  // mrope: text has the same position in all sections
  if (type == "linear") {
    to.scaling = RopeScaling::linear;
    to.factor = required(h, rope, where, "factor");
    return;
  }
  if (type == "dynamic") return read_dynamic(rope, decoder);
  to.original_positions = h.integer("original_max_position_embeddings",
                                    rope.integer("original_max_position_embeddings", decoder.max_positions));
  if (to.original_positions < 2) return h.fail("original_max_position_embeddings", "more than one position");
  if (type == "llama3") {
    read_llama3(h, rope, where, to);
  } else if (type == "yarn") {
    read_yarn(h, rope, decoder);
  } else if (type == "longrope" || type == "su") {
    read_longrope(rope, decoder.max_positions, to);
  } else {
    h.refuse(concat("config.json: ", where, " type '", printable(type),
                    "' is not supported; supported: default, linear, dynamic, llama3, yarn, longrope, "
                    "proportional"));
  }
}

// Ignores options of other kinds of scaling, which may be in the same object.
void sort_others(Hyperparameters& rope, std::string_view where, ModelInfo& model) {
  rope.without_effect(
      "factor low_freq_factor high_freq_factor original_max_position_embeddings beta_fast "
      "beta_slow mscale mscale_all_dim attention_factor truncate short_factor long_factor "
      "short_mscale long_mscale alpha mrope_section mrope_interleaved finetuned type "
      "max_position_embeddings");
  for (std::string& option : rope.refuse_unread(concat(where, ".")))
    model.unknown_options.push_back(std::move(option));
}

void read_rope_object(Hyperparameters& h, Hyperparameters& rope, std::string_view where, ModelInfo& model,
                      bool may_be_partial) {
  read_scaling(h, rope, where, model.decoder, may_be_partial);
  sort_others(rope, where, model);
}

}  // namespace

RopeConfig& begin_rotation(DecoderConfig& decoder, float theta) {
  decoder.ropes = {{.theta = theta, .rotary_size = largest_head(decoder)}};
  each_attention(decoder, [](AttentionConfig& attention) { attention.rope = 0; });
  return decoder.ropes.front();
}

void set_query_temperature(float beta, std::int32_t positions, DecoderConfig& decoder) {
  each_attention(decoder, [&](AttentionConfig& attention) {
    attention.temperature_beta = beta;
    attention.temperature_positions = std::max(positions, 1);
  });
}

float yarn_scale(float factor, float weight) {
  return factor <= 1 ? 1.0f : 0.1f * weight * std::log(factor) + 1.0f;
}

void stretch_context(DecoderConfig& decoder) {
  const RopeConfig& rope = decoder.ropes.front();
  const double stretched = static_cast<double>(rope.original_positions) * rope.factor;
  if (stretched > decoder.max_positions && stretched <= static_cast<double>(1 << 30))
    decoder.max_positions = static_cast<std::int32_t>(stretched);
}

const json::object* rope_object(Hyperparameters& h) {
  const json::object* const scaling = h.object("rope_scaling");
  return scaling != nullptr && !scaling->empty() ? scaling : h.object("rope_parameters");
}

bool has_plain_rope(Hyperparameters& h) {
  return h.object("rope_scaling") == nullptr && h.object("rope_parameters") == nullptr;
}

void read_rope(Hyperparameters& h, ModelInfo& model, float theta, float partial) {
  begin_rotation(model.decoder, h.number("rope_theta", theta));
  const bool is_partial = partial > 0 || may_be_partial(h);
  if (is_partial)
    set_partial(h, h.number("partial_rotary_factor", partial), model.decoder);
  else
    h.only("partial_rotary_factor", 1.0);

  // If transformers 5 finds rope_scaling beside rope_parameters, rope_scaling wins; so it does here.
  const json::object* const object = rope_object(h);
  if (object == nullptr) return;
  const std::string_view where = object == h.object("rope_scaling") ? "rope_scaling" : "rope_parameters";
  Hyperparameters rope(*object, h.shared_status());
  for (const auto& [key, value] : *object) {
    if (!value.is_object()) continue;
    return h.refuse(concat("config.json: '", where, "' for '", printable(key),
                           "' layers is not supported; supported: one for all"));
  }
  read_rope_object(h, rope, where, model, is_partial);
}

void read_rope_by_layer(Hyperparameters& h, ModelInfo& model, float theta, float local_theta) {
  const bool is_partial = may_be_partial(h);
  const std::int32_t head_size = largest_head(model.decoder);
  local_theta = h.number("rope_local_base_freq", local_theta);
  const json::object* both = h.object("rope_parameters");
  const json::value* full = both != nullptr ? both->if_contains("full_attention") : nullptr;
  const json::value* sliding = both != nullptr ? both->if_contains("sliding_attention") : nullptr;
  if (full == nullptr && sliding == nullptr) {
    read_rope(h, model, theta);
    return rotate_windows_by(local_theta, model, is_partial ? head_size : 0);
  }
  begin_rotation(model.decoder, h.number("rope_theta", theta));
  std::int32_t local_rotary = 0;
  for (const json::value* each : {full, sliding}) {
    if (each == nullptr || each->is_null()) continue;
    if (!each->is_object()) return h.fail("rope_parameters", "an object for each kind of layer");
    Hyperparameters rope(each->get_object(), h.shared_status());
    if (each == full) {
      read_rope_object(h, rope, "rope_parameters.full_attention", model, is_partial);
      // transformers looks for it beside the kinds of layers.
      model.decoder.ropes.front().truncate =
          Hyperparameters(*both, h.shared_status()).boolean("truncate", true);
      // A scaling in the older form beside it applies to these layers.
      if (const json::object* scaling = h.object("rope_scaling")) {
        Hyperparameters more(*scaling, h.shared_status());
        read_rope_object(h, more, "rope_scaling", model, false);
      }
    } else {
      rope.only("rope_type", "default");
      local_theta = rope.number("rope_theta", local_theta);
      const float partial = rope.number("partial_rotary_factor", 1);
      if (!(partial > 0) || partial > 1) h.fail("partial_rotary_factor", "in (0, 1]");
      if (is_partial && partial > 0 && partial <= 1)
        local_rotary = static_cast<std::int32_t>(static_cast<float>(head_size) * partial);
      sort_others(rope, "rope_parameters.sliding_attention", model);
    }
  }
  rotate_windows_by(local_theta, model, local_rotary);
}

}  // namespace pagoda
