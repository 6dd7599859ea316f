// Muse Glimmer: a normed embedding, norms on both sides of each half, of every query and key head without
// weights, gates of what is attended, windows, which alone rotate, and capped logits.
#include <cmath>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_muse_glimmer(Hyperparameters& h, ModelConfig& config) {
  Defaults absent = {.vocab_size = 202048,
                     .hidden_size = 6656,
                     .intermediate_size = 19968,
                     .num_layers = 52,
                     .num_heads = 32,
                     .num_kv_heads = 2,
                     .max_positions = 131072,
                     .norm_eps = 1e-5f,
                     .rope_theta = 10000.0f,
                     .bos = 200000,
                     .eos = 200001,
                     .head_size = 128};
  read_common(h, absent, config);
  config.activation = h.string("hidden_activation", "silu");
  config.norm_weight_offset = 1;
  config.branch_norm_eps = h.number("post_norm_eps", 1e-8f);
  config.logit_scale = h.number("output_multiplier", 0.19611613513818404f);
  config.logit_softcap = h.number("final_logit_softcapping", 20);
  config.attention_scale =
      h.number("qk_scale_factor", 3.87f) / std::sqrt(static_cast<float>(config.head_size));
  config.sliding_window = h.integer("sliding_window", 2048);
  const auto sees_all = [&](std::int32_t layer) { return (config.num_layers - 1 - layer) % 4 == 0; };
  if (!read_layer_types(h, config))
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(!sees_all(layer));
  if (h.find("layer_rope_theta") != nullptr) {
    read_layer_thetas(h, config);
  } else {
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.rope_layers.push_back(!sees_all(layer));
  }
  finish_windows(h, config);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  decoder->embedding_norm = NormConfig{.eps = config.norm_eps, .weighted = false};
  decoder->final_norm->weight_offset = 0;
  for (LayerConfig& layer : decoder->layers) {
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
    layer.branch_norm_eps = config.branch_norm_eps;
    layer.attention()->output_gate = OutputGate::sigmoid;
    // GGUF files have the scale of queries as the weights of such a norm.
    layer.attention()->query_key_norm =
        config.query_key_norm ? QueryKeyNorm::per_head : QueryKeyNorm::per_head_unweighted;
  }
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names = gemma2_names(format);
  names.output_gate = format == ModelFormat::gguf ? "attn_gate" : "self_attn.gate_proj";
  return names;
}

// The scale of queries is the weight of their norm; how norms behind each half round is in no file.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.interleaved_rows = true}, config);
  config.query_key_norm = true;
  config.branch_norm_eps = 1e-8f;
  config.logit_scale = h.number("logit_scale");
  config.logit_softcap = h.number("final_logit_softcapping", 0.0f);
  config.rope_theta = h.number("rope.freq_base_swa", config.rope_theta);  // no other layers rotate
  read_gguf_window_pattern(h, 4, config);
  rotate_windows_alone(config);
}

}  // namespace

PAGODA_FAMILY(muse_glimmer) = {
    .architecture = "muse-glimmer",
    .configs = {{"MuseGlimmerTextModel", "MuseGlimmerTextModel", "muse_glimmer_text", read_muse_glimmer}},
    .wrappers = {{"MuseGlimmerForConditionalGeneration", "muse_glimmer", "muse_glimmer_text"}},
    .ggufs = {{"muse-glimmer", read_gguf}},
    .describe = describe,
    .names = names,
    .row = {.name = "Muse Glimmer 30B (text)",
            .differs = "normed embedding, norms on both sides of each half, of queries and keys without "
                       "weights, gates of what is attended, windows, which alone rotate, soft cap of logits",
            .checked = "transformers",
            .size = "30B",
            .config = R"({"model_type":"muse_glimmer_text"})"}};

}  // namespace pagoda
