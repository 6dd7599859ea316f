// Rotation in GGUF metadata. A key that converters make from a config.json key has that key's meaning in
// transformers, even if llama.cpp reads it only for some families; a key that only llama.cpp has means what
// llama.cpp computes from it:
//   rope.freq_base, rope.dimension_count   base, and dimensions of a head that are rotated
//   rope.freq_base_swa                     base of layers with windows
//   rope.scaling.type, .factor             none, linear, yarn, longrope; a factor without a type is linear
//   rope.scaling.original_context_length   of yarn and longrope
//   rope.scaling.yarn_attn_factor          instead of the scale that follows from yarn's factor
//   rope.scaling.yarn_log_multiplier       what that scale is divided by: mscale_all_dim
//   rope.scaling.yarn_beta_fast, _slow     where yarn's blend begins and ends
//   rope.scaling.attn_factor               a further scale of cosines and sines, whatever the type
//   rope.scaling.yarn_ext_factor           without effect; below 0 in files that llama.cpp itself has saved
//   rope.scale_linear                      what old files call the factor
//   rope_freqs.weight                      divisors of each frequency, beside any type
//   rope_factors_{short,long}.weight       longrope, whatever the type
#include "models/reading.h"

namespace pagoda {
namespace {

void read_gguf_yarn(Hyperparameters& h, float factor, DecoderConfig& decoder) {
  RopeConfig& rope = decoder.ropes.front();
  rope.scaling = RopeScaling::yarn;
  rope.factor = factor;
  rope.original_positions = h.integer("rope.scaling.original_context_length", decoder.max_positions);
  rope.beta_fast = h.number("rope.scaling.yarn_beta_fast", rope.beta_fast);
  rope.beta_slow = h.number("rope.scaling.yarn_beta_slow", rope.beta_slow);
  if (h.written("rope.scaling.original_context_length")) stretch_context(decoder);
  const float all = h.number("rope.scaling.yarn_log_multiplier", 0.0f);
  rope.attention_factor =
      gguf_yarn_scale(h, yarn_scale(factor, 1) / (all != 0 ? yarn_scale(factor, all) : 1.0f));
}

}  // namespace

// llama.cpp's own saver writes the factor of every model as 1, which no reader of it uses.
float gguf_yarn_scale(Hyperparameters& h, float otherwise) {
  constexpr std::string_view kGiven = "rope.scaling.yarn_attn_factor";
  const bool given = h.written(kGiven) && h.number("rope.scaling.yarn_ext_factor", 1.0f) >= 0;
  return h.number("rope.scaling.attn_factor", 1.0f) * (given ? h.number(kGiven) : otherwise);
}

void read_gguf_rope(Hyperparameters& h, ModelInfo& model) {
  DecoderConfig& decoder = model.decoder;
  const AttentionConfig& attention = *decoder.layers.front().attention();
  RopeConfig& rope = begin_rotation(decoder, h.number("rope.freq_base", 10000.0f));
  rope.rotary_size = h.integer("rope.dimension_count", attention.head_size);
  const std::string type = h.string("rope.scaling.type", "");
  float factor = h.written("rope.scaling.factor") ? h.number("rope.scaling.factor")
                                                  : h.number("rope.scale_linear", 1.0f);
  if (factor == 0) factor = 1;
  if (type == "longrope" || h.has_tensor("rope_factors_long.weight")) {
    rope.scaling = RopeScaling::longrope;
    rope.original_positions = h.integer("rope.scaling.original_context_length", decoder.max_positions);
    if (factor != 1 && type != "longrope" && type != "none")
      h.fail(
          unimplemented("GGUF option 'rope.scaling.factor' beside rope_factors_long.weight is not "
                        "supported"));
  } else if (type == "yarn") {
    read_gguf_yarn(h, factor, decoder);
  } else if (type == "linear" || type.empty()) {
    if (factor != 1) rope.scaling = RopeScaling::linear;
    rope.factor = factor;
  } else if (type != "none") {
    h.fail(unimplemented(concat("rope scaling type '", printable(type),
                                "' is not supported; supported: none, linear, yarn, longrope, and llama3 by "
                                "rope_freqs.weight")));
  }
  if (rope.scaling != RopeScaling::yarn) rope.attention_factor = h.number("rope.scaling.attn_factor", 1.0f);
  const float theta = rope.theta, local = h.number("rope.freq_base_swa", theta);
  if (attention.sliding_window > 0 && local != theta) rotate_windows_by(local, model);
}

}  // namespace pagoda
