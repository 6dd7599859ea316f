// Muse Glimmer: a normed embedding, norms before and after each sublayer, unweighted norms of query and key
// heads, gated attention output, windows, RoPE only in layers with windows, and capped logits.
#include <cmath>

#include "models/reading.h"

namespace pagoda::muse_glimmer {

// Sets the epsilon of norms after each sublayer, and the norm of queries and keys.
void norm_queries(QueryKeyNorm norm, float branch_eps, DecoderConfig& decoder) {
  for (LayerConfig& layer : decoder.layers) {
    layer.branch_norm_eps = branch_eps;
    layer.attention()->query_key_norm = norm;
  }
}

void read_muse_glimmer(Hyperparameters& h, ModelInfo& model) {
  DecoderConfig& decoder = model.decoder;
  offset_norms(decoder);
  norm_queries(QueryKeyNorm::per_head_unweighted, h.number("post_norm_eps", 1e-8f), decoder);
  decoder.logit_scale = h.number("output_multiplier", 0.19611613513818404f);
  decoder.logit_softcap = h.number("final_logit_softcapping", 20);
  const auto head_size = static_cast<float>(decoder.layers.front().attention()->head_size);
  scale_attention(h.number("qk_scale_factor", 3.87f) / std::sqrt(head_size), decoder);
  const auto has_window = [&](std::int32_t layer) { return (decoder.num_layers() - 1 - layer) % 4 != 0; };
  const std::vector<bool> windows = read_window_layers_or(h, model, has_window);
  use_windows(h, h.integer("sliding_window", 2048), windows, model);
  if (h.find("layer_rope_theta") != nullptr) return read_layer_thetas(h, windows, model);
  for (std::int32_t layer = 0; layer < decoder.num_layers(); ++layer)
    if (!has_window(layer)) decoder.layers[static_cast<std::size_t>(layer)].attention()->rope = kNoRope;
}

void shape(DecoderConfig& decoder) {
  decoder.embedding_norm = NormConfig{.eps = decoder.final_norm->eps, .weighted = false};
  decoder.final_norm->weight_offset = 0;
  norm_branches(decoder);
  gate_outputs(decoder, OutputGate::sigmoid);
}

void names(WeightNames& names) {
  gemma2_names(names);
  names.output_gate = "self_attn.gate_proj";
}

// The scale of queries is the weight of their norm; the epsilon of norms after each sublayer is in no file.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  norm_queries(QueryKeyNorm::per_head, 1e-8f, model.decoder);
  model.decoder.logit_scale = h.number("logit_scale");
  model.decoder.logit_softcap = h.number("final_logit_softcapping", 0.0f);
  float& theta = model.decoder.ropes.front().theta;
  theta = h.number("rope.freq_base_swa", theta);  // no other layers rotate
  rotate_windows_by(0, model);
  read_gguf_window_pattern(h, 4, model);
  rotate_windows_alone(model.decoder);
}

extern const Family family = {
    .configs = {{"MuseGlimmerTextModel", "muse_glimmer_text",
                 R"({"vocab_size":202048,"hidden_size":6656,"intermediate_size":19968,"num_hidden_layers":52,
                     "num_key_value_heads":2,"max_position_embeddings":131072,"bos_token_id":200000,
                     "eos_token_id":200001,"head_dim":128,"hidden_activation":"silu"})",
                 read_muse_glimmer}},
    .wrappers = {{"MuseGlimmerForConditionalGeneration", "muse_glimmer", "muse_glimmer_text"}},
    .ggufs = {{"muse-glimmer", {.interleaved_rows = true}, read_gguf}},
    .shape = shape,
    .names = names,
    .row = {
        .name = "Muse Glimmer 30B (text)",
        .differs =
            "normed embedding, norms before and after each sublayer and of queries and keys without weights, "
            "gated attention output, windows, RoPE in window layers only, soft cap of logits",
        .size = "30B"}};

}  // namespace pagoda::muse_glimmer
