// Gemma 3n E2B, E4B: per-layer inputs and shared keys and values as in Gemma 4, several residual streams
// (AltUp), a low-rank residual around each mixer (LAuReL), and sparse feed-forwards in the first layers.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/reading.h"

namespace pagoda::gemma3n {

// Returns the standard deviations above the mean of a normal distribution below which `share` of it lies,
// where 0 < share < 1.
float deviations_of(float share) {
  double low = -40, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < share ? low : high) = middle;
  }
  return static_cast<float>(low);
}

void keep_above(float deviations, LayerConfig& layer) {
  layer.feed_forward = SparseFeedForwardConfig{layer.dense()->intermediate_size, deviations};
}

// Reads the share of features that each layer cuts off; 0: the feed-forward is dense.
void read_sparsity(Hyperparameters& h, DecoderConfig& decoder) {
  constexpr std::string_view kName = "activation_sparsity_pattern";
  constexpr std::size_t kFirst = 10;  // layers that are sparse if the file does not say
  std::vector<float> shares(decoder.layers.size(), 0.0f);
  if (h.find(kName) != nullptr)
    shares = h.numbers(kName);
  else if (shares.size() > kFirst)
    std::fill_n(shares.begin(), kFirst, 0.95f);
  if (shares.size() != decoder.layers.size()) return h.fail(kName, "a number for each layer");
  for (std::size_t index = 0; index < shares.size(); ++index) {
    if (!(shares[index] >= 0) || shares[index] >= 1) return h.fail(kName, "in [0, 1) for each layer");
    if (shares[index] > 0) keep_above(deviations_of(shares[index]), decoder.layers[index]);
  }
}

// One size for all layers, or one per layer; the largest comes first.
std::vector<float> read_intermediate_sizes(Hyperparameters& h) {
  constexpr std::string_view kName = "intermediate_size";
  const json::value* sizes = h.find(kName);
  if (sizes != nullptr && sizes->is_array()) return h.numbers(kName);
  return {static_cast<float>(h.integer(kName, 16384))};
}

void read_gemma3n(Hyperparameters& h, ModelInfo& model) {
  const auto features = [](float size) {
    return static_cast<std::int32_t>(std::clamp(size, -1.0f, 16777217.0f));
  };
  const std::vector<float> sizes = read_intermediate_sizes(h);
  if (sizes.empty()) return;  // not a valid list
  read_layers(h, model, {.inner = features(std::ranges::max(sizes))});
  DecoderConfig& decoder = model.decoder;
  if (sizes.size() > 1 && sizes.size() != decoder.layers.size())
    return h.fail("intermediate_size", "a number, or one for each layer");
  if (sizes.size() > 1)
    for (std::size_t index = 0; index < sizes.size(); ++index)
      decoder.layers[index].dense()->intermediate_size = features(sizes[index]);
  decoder.logit_softcap = h.nullable_number("final_logit_softcapping", 0);
  read_rope_by_layer(h, model, 1000000.0f, 10000.0f);
  read_window_pattern(h, 5, model);
  share_kv(h, h.integer("num_kv_shared_layers", 15), decoder);
  decoder.layer_input = LayerInputConfig{.size = h.integer("hidden_size_per_layer_input", 256),
                                         .rows = h.integer("vocab_size_per_layer_input", 262144)};
  decoder.streams = StreamsConfig{.count = h.integer("altup_num_inputs", 4),
                                  .scaled = h.boolean("altup_correct_scale", true)};
  h.only("altup_active_idx", 0);
  h.find("altup_coef_clip");  // only used in training
  const std::int32_t rank = h.integer("laurel_rank", 64);
  for (LayerConfig& layer : decoder.layers) layer.learned_residual = rank;
  if (h.string("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh")
    h.refuse("config.json: 'hidden_activation' of Gemma 3n can only be 'gelu_pytorch_tanh'");
  read_sparsity(h, decoder);
}

void shape(DecoderConfig& decoder) {
  sandwich_gemma_shape(decoder);
  norm_heads(decoder);
  scale_attention(1, decoder);
  each_attention(decoder, [](AttentionConfig& attention) { attention.value_norm = true; });
}

void names(WeightNames& names) {
  layer_input_names(names);
  names.residual_down = "laurel.linear_left";
  names.residual_up = "laurel.linear_right";
  names.residual_norm = "laurel.post_laurel_norm";
  names.streams_enter = "model.altup_projections.{}";
  names.streams_leave = "model.altup_unembed_projections.{}";
  names.streams_router = "altup.modality_router";
  names.streams_router_norm = "altup.router_norm";
  names.streams_predict = "altup.prediction_coefs";
  names.streams_correct = "altup.correction_coefs";
  names.streams_scale = "altup.correct_output_scale";
}

// Ranks and tables have the sizes of their tensors.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  DecoderConfig& decoder = model.decoder;
  decoder.logit_softcap = h.number("final_logit_softcapping", 30.0f);
  rotate_windows_by(h.number("rope.freq_base_swa", 10000.0f), model);
  decoder.layer_input = LayerInputConfig{.size = h.integer("embedding_length_per_layer_input")};
  decoder.streams = StreamsConfig{.count = h.integer("altup.num_inputs"), .scaled = true};
  if (h.integer("altup.active_idx", 0) != 0)
    h.fail(unimplemented("GGUF option 'altup.active_idx' other than 0 is not supported"));
  for (const FileTensor& tensor : h.gguf()->tensor_list()) {
    const auto rows = [&](std::int32_t most) {
      return static_cast<std::int32_t>(std::clamp<std::int64_t>(tensor.shape.front(), 1, most));
    };
    if (tensor.name == "per_layer_token_embd.weight") decoder.layer_input->rows = rows(1 << 24);
    if (tensor.name == "blk.0.laurel_l.weight")
      for (LayerConfig& layer : decoder.layers) layer.learned_residual = rows(1 << 16);
  }
  if (const GgufArray* cutoffs = h.gguf()->array("gemma3n.activation_sparsity_scale")) {
    if (cutoffs->floats.size() != decoder.layers.size())
      return h.corrupt("cutoffs of features are no numbers, one for each layer");
    for (std::size_t index = 0; index < cutoffs->floats.size(); ++index)
      if (const auto cutoff = static_cast<float>(cutoffs->floats[index]); !std::isinf(cutoff))
        keep_above(cutoff, decoder.layers[index]);
  }
  read_gguf_window_pattern(h, 5, model);
  share_kv(h, h.integer("attention.shared_kv_layers", 15), decoder);
  h.without_effect("activation_sparsity_scale");
}

extern const Family family = {
    .configs = {{"Gemma3nForCausalLM", "gemma3n_text",
                 R"({"vocab_size":262400,"hidden_size":2048,"num_hidden_layers":35,"num_attention_heads":8,
                     "max_position_embeddings":32768,"num_key_value_heads":2,"rms_norm_eps":1e-6,
                     "bos_token_id":2,"eos_token_id":1,"pad_token_id":0,"tie_word_embeddings":true,
                     "head_dim":256,"hidden_activation":"gelu_pytorch_tanh","final_logit_softcapping":30,
                     "sliding_window":512})",
                 read_gemma3n, Reads::all}},
    .wrappers = {{"Gemma3nForConditionalGeneration", "gemma3n", "gemma3n_text"}},
    .ggufs = {{"gemma3n", {.activation = "gelu_new"}, read_gguf}},
    .shape = shape,
    .names = names,
    .row = {.name = "Gemma 3n: E2B, E4B (text)",
            .differs = "four residual streams (AltUp), a low-rank residual around attention (LAuReL), sparse "
                       "feed-forwards in the first layers, per-layer inputs, layers that reuse earlier "
                       "layers' keys and values",
            .size = "E4B"}};

}  // namespace pagoda::gemma3n
