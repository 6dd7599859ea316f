// Gemma 3n E2B, E4B: Gemma 4's inputs of layers and shared keys and values, with several residual streams
// (AltUp), a low-rank way around each mixer (LAuReL), and few features a row in the first feed-forwards.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// How many standard deviations above the mean of a normal distribution so much of it lies below: 0 < share
// < 1.
float deviations_of(float share) {
  double low = -40, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < share ? low : high) = middle;
  }
  return static_cast<float>(low);
}

// The share of features that each layer cuts off; 0: its feed-forward is dense.
void read_sparsity(Hyperparameters& h, ModelConfig& config) {
  constexpr float kDense = -std::numeric_limits<float>::infinity();
  constexpr std::string_view kName = "activation_sparsity_pattern";
  constexpr std::size_t kFirst = 10;  // layers that are sparse where the file does not say so
  const auto count = static_cast<std::size_t>(listed_layers(config));
  std::vector<float> shares(count, 0.0f);
  if (h.find(kName) != nullptr)
    shares = h.numbers(kName);
  else if (count > kFirst)
    std::fill_n(shares.begin(), kFirst, 0.95f);
  if (shares.size() != count) return h.fail(kName, "a number for each layer");
  for (const float share : shares) {
    if (!(share >= 0) || share >= 1) return h.fail(kName, "in [0, 1) for each layer");
    config.sparse_cutoffs.push_back(share > 0 ? deviations_of(share) : kDense);
  }
}

// One for all, or one for each layer.
void read_intermediate_sizes(Hyperparameters& h, ModelConfig& config) {
  constexpr std::string_view kName = "intermediate_size";
  const json::value* sizes = h.find(kName);
  if (sizes == nullptr || !sizes->is_array()) {
    config.intermediate_size = h.integer(kName, 16384);
    return;
  }
  const std::vector<float> each = h.numbers(kName);
  if (each.empty() || each.size() != static_cast<std::size_t>(listed_layers(config)))
    return h.fail(kName, "a number, or one for each layer");
  for (const float size : each) {
    const auto features = static_cast<std::int32_t>(std::clamp(size, -1.0f, 16777217.0f));
    config.layer_sizes.push_back(
        {.num_kv_heads = config.num_kv_heads, .head_size = config.head_size, .intermediate_size = features});
    config.intermediate_size = std::max(config.intermediate_size, features);
  }
  if (std::ranges::adjacent_find(each, std::ranges::not_equal_to()) == each.end()) config.layer_sizes.clear();
}

void read_gemma3n(Hyperparameters& h, ModelConfig& config) {
  config.vocab_size = h.integer("vocab_size", 262400);
  config.hidden_size = h.integer("hidden_size", 2048);
  config.num_layers = h.integer("num_hidden_layers", 35);
  config.num_heads = h.integer("num_attention_heads", 8);
  config.num_kv_heads = h.integer("num_key_value_heads", 2);
  config.head_size = h.integer("head_dim", 256);
  config.max_positions = h.integer("max_position_embeddings", 32768);
  config.norm_eps = h.number("rms_norm_eps", 1e-6f);
  config.activation = h.string("hidden_activation", "gelu_pytorch_tanh");
  config.tie_embeddings = h.boolean("tie_word_embeddings", true);
  config.attention_bias = h.boolean("attention_bias", false);
  config.attention_scale = 1;
  config.logit_softcap = h.written("final_logit_softcapping") ? h.number("final_logit_softcapping", 0) : 30;
  config.bos_token_id = h.written("bos_token_id") ? h.integer("bos_token_id", -1) : 2;
  config.pad_token_id = 0;
  config.eos_token_ids = {1};
  read_rope_by_layer(h, config, 1000000.0f, 10000.0f);
  read_intermediate_sizes(h, config);
  config.sliding_window = h.integer("sliding_window", 512);
  read_window_pattern(h, config, 5);
  config.shared_kv_layers = h.integer("num_kv_shared_layers", 15);
  config.layer_input_size = h.integer("hidden_size_per_layer_input", 256);
  config.layer_input_rows = h.integer("vocab_size_per_layer_input", 262144);
  config.num_streams = h.integer("altup_num_inputs", 4);
  config.scaled_streams = h.boolean("altup_correct_scale", true);
  h.only("altup_active_idx", 0);
  h.find("altup_coef_clip");  // training alone
  config.learned_residual = h.integer("laurel_rank", 64);
  read_sparsity(h, config);
  if (config.activation != "gelu_pytorch_tanh")
    h.refuse("config.json: 'hidden_activation' of Gemma 3n can only be 'gelu_pytorch_tanh'");
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  decoder->embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  decoder->scale_as_embedding = true;
  decoder->streams = StreamsConfig{.count = config.num_streams, .scaled = config.scaled_streams};
  decoder->layer_input = LayerInputConfig{.size = config.layer_input_size, .rows = config.layer_input_rows};
  for (std::size_t index = 0; index < decoder->layers.size(); ++index) {
    LayerConfig& layer = decoder->layers[index];
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
    layer.learned_residual = config.learned_residual;
    AttentionConfig& attention = *layer.attention();
    attention.query_key_norm = QueryKeyNorm::per_head;
    attention.value_norm = true;
    const float deviations = config.sparse_cutoffs.empty() ? -INFINITY : config.sparse_cutoffs[index];
    if (!std::isinf(deviations))
      layer.feed_forward = SparseFeedForwardConfig{layer.dense()->intermediate_size, deviations};
  }
  return share_kv(config, *std::move(decoder));
}

WeightNames names(ModelFormat format) {
  WeightNames names = layer_input_names(format);
  const bool gguf = format == ModelFormat::gguf;
  names.residual_down = gguf ? "laurel_l" : "laurel.linear_left";
  names.residual_up = gguf ? "laurel_r" : "laurel.linear_right";
  names.residual_norm = gguf ? "laurel_post_norm" : "laurel.post_laurel_norm";
  names.streams_enter = gguf ? "altup_proj" : "model.altup_projections.{}";
  names.streams_leave = gguf ? "altup_unembd_proj" : "model.altup_unembed_projections.{}";
  names.streams_router = gguf ? "altup_router" : "altup.modality_router";
  names.streams_router_norm = gguf ? "altup_router_norm" : "altup.router_norm";
  names.streams_predict = gguf ? "altup_predict_coef" : "altup.prediction_coefs";
  names.streams_correct = gguf ? "altup_correct_coef" : "altup.correction_coefs";
  names.streams_scale = gguf ? "altup_correct_scale" : "altup.correct_output_scale";
  return names;
}

// Ranks and tables are as large as their tensors.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu_new"}, config);
  config.attention_scale = 1;
  config.logit_softcap = h.number("final_logit_softcapping", 30.0f);
  config.rope_local_theta = h.number("rope.freq_base_swa", 10000.0f);
  config.shared_kv_layers = h.integer("attention.shared_kv_layers", 15);
  config.layer_input_size = h.integer("embedding_length_per_layer_input");
  config.num_streams = h.integer("altup.num_inputs");
  config.scaled_streams = true;
  if (h.integer("altup.active_idx", 0) != 0)
    h.fail(unimplemented("GGUF option 'altup.active_idx' other than 0 is not supported"));
  for (const GgufTensor& tensor : h.gguf()->tensor_list()) {
    const auto rows = [&](std::int32_t most) {
      return static_cast<std::int32_t>(std::clamp<std::int64_t>(tensor.shape.front(), 1, most));
    };
    if (tensor.name == "per_layer_token_embd.weight") config.layer_input_rows = rows(1 << 24);
    if (tensor.name == "blk.0.laurel_l.weight") config.learned_residual = rows(1 << 16);
  }
  if (const GgufArray* cutoffs = h.gguf()->array("gemma3n.activation_sparsity_scale"))
    for (const double cutoff : cutoffs->floats) config.sparse_cutoffs.push_back(static_cast<float>(cutoff));
  read_gguf_window_pattern(h, 5, config);
  h.without_effect({"activation_sparsity_scale"});
}

}  // namespace

PAGODA_FAMILY(gemma3n) = {
    .architecture = "gemma3n",
    .configs = {{"Gemma3nForCausalLM", "Gemma3nTextModel", "gemma3n_text", read_gemma3n}},
    .wrappers = {{"Gemma3nForConditionalGeneration", "gemma3n", "gemma3n_text"}},
    .ggufs = {{"gemma3n", read_gguf}},
    .describe = describe,
    .names = names,
    .row = {.name = "Gemma 3n: E2B, E4B (text)",
            .differs =
                "four residual streams (AltUp), a low-rank way around attention (LAuReL), few features a "
                "token in the first layers, inputs of layers, layers that read earlier ones' keys and values",
            .checked = "transformers",
            .size = "E4B",
            .config = R"({"model_type":"gemma3n_text"})"}};

}  // namespace pagoda
