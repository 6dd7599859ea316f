// Gemma 4: Gemma 3 with a head size for layers with a window and one for those that see everything,
// normalised values, scores without a scale, and a scale of each layer. E2B and E4B: inputs of each layer,
// and layers that read the keys and values of earlier ones. 12B and 31B: keys that are values. 26B-A4B: a
// mixture beside each dense feed-forward.
#include <algorithm>
#include <cmath>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// 12B, whose defaults are others.
bool is_unified(const ModelConfig& config) { return config.type.starts_with("gemma4_unified"); }

// Which layers have a window: all but every sixth, and never the last.
void read_windows(Hyperparameters& h, ModelConfig& config) {
  config.sliding_window = h.integer("sliding_window", is_unified(config) ? 1024 : 512);
  if (!read_layer_types(h, config))
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back((layer + 1) % 6 != 0);
  if (!config.window_layers.empty()) config.window_layers.back() = false;
  finish_windows(h, config);
}

// Values of single layers: {"5": {"head_dim": 512}, ...}
void read_layer_config(Hyperparameters& h, ModelConfig& config) {
  const json::object* layers = h.object("per_layer_config");
  if (layers == nullptr) return;
  for (std::int32_t index = 0; index < listed_layers(config); ++index) {
    const json::value* layer = layers->if_contains(std::to_string(index));
    if (layer == nullptr) continue;
    if (!layer->is_object()) return h.fail("per_layer_config", "an object of objects");
    Hyperparameters own(layer->get_object(), h.shared_status());
    LayerSizes& sizes = config.layer_sizes[static_cast<std::size_t>(index)];
    sizes.head_size = own.integer("head_dim", sizes.head_size);
    sizes.num_kv_heads = own.integer("num_key_value_heads", sizes.num_kv_heads);
    for (const auto& [key, value] : layer->get_object())
      if (key != "head_dim" && key != "num_key_value_heads")
        h.refuse(concat("config.json: per_layer_config has '", printable(key), "', which is not supported"));
  }
}

void read_gemma4(Hyperparameters& h, ModelConfig& config) {
  config.vocab_size = h.integer("vocab_size", 262144);
  config.hidden_size = h.integer("hidden_size", 2304);
  config.intermediate_size = h.integer("intermediate_size", 9216);
  config.num_layers = h.integer("num_hidden_layers", 30);
  config.num_heads = h.integer("num_attention_heads", 8);
  config.num_kv_heads = h.integer("num_key_value_heads", 4);
  const std::int32_t local_size = h.integer("head_dim", 256);
  config.max_positions = h.integer("max_position_embeddings", is_unified(config) ? 262144 : 131072);
  config.norm_eps = h.number("rms_norm_eps", 1e-6f);
  config.activation = h.string("hidden_activation", "gelu_pytorch_tanh");
  config.tie_embeddings = h.boolean("tie_word_embeddings", true);
  config.attention_bias = h.boolean("attention_bias", false);
  config.attention_scale = 1;
  config.logit_softcap = h.number("final_logit_softcapping", 0);
  config.bos_token_id = h.written("bos_token_id") ? h.integer("bos_token_id", -1) : 2;
  config.pad_token_id = 0;
  config.eos_token_ids = {1};
  // "vision" is about pictures, which are not read.
  if (h.string("use_bidirectional_attention", "") != "vision") h.only("use_bidirectional_attention", nullptr);

  read_windows(h, config);
  config.keys_are_values = h.boolean("attention_k_eq_v", false);
  config.shared_kv_layers = h.integer("num_kv_shared_layers", 0);
  const bool wide = h.boolean("use_double_wide_mlp", false);
  const std::int32_t full_size = h.integer("global_head_dim", 512);
  const std::int32_t full_heads = config.keys_are_values
                                      ? h.integer("num_global_key_value_heads", config.num_kv_heads)
                                      : config.num_kv_heads;
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer) {
    const bool window = config.sliding_window > 0 &&
                        static_cast<std::size_t>(layer) < config.window_layers.size() &&
                        config.window_layers[static_cast<std::size_t>(layer)];
    const bool shares = layer >= config.num_layers - config.shared_kv_layers;
    const std::int64_t inner = std::int64_t{config.intermediate_size} * (wide && shares ? 2 : 1);
    config.layer_sizes.push_back(
        {.num_kv_heads = window ? config.num_kv_heads : full_heads,
         .head_size = window ? local_size : full_size,
         .intermediate_size = static_cast<std::int32_t>(std::min<std::int64_t>(inner, 1 << 25))});
  }
  read_layer_config(h, config);
  config.head_size = local_size;  // the largest, which bounds all
  for (const LayerSizes& layer : config.layer_sizes)
    config.head_size = std::max(config.head_size, layer.head_size);
  read_rope_by_layer(h, config, 1000000.0f, 10000.0f);
  if (h.find("rope_parameters") == nullptr) config.rotary_dims = config.head_size / 8 * 2;

  config.layer_input_size = h.integer("hidden_size_per_layer_input", 256);
  if (config.layer_input_size > 0 && h.integer("vocab_size_per_layer_input", 262144) != config.vocab_size)
    h.refuse("config.json: 'vocab_size_per_layer_input' other than 'vocab_size' is not supported");
  if (!h.boolean("enable_moe_block", false)) {
    for (const char* unused : {"num_experts", "top_k_experts", "moe_intermediate_size"}) h.find(unused);
    return;
  }
  config.experts.count = h.integer("num_experts", 0);
  config.experts.per_token = h.integer("top_k_experts", 0);
  config.experts.intermediate_size = h.integer("moe_intermediate_size", 0);
  config.experts.renormalize = true;
  if (config.experts.count < 1) h.fail("num_experts", "given where mixtures are enabled");
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  decoder->embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  decoder->scale_as_embedding = true;
  const auto activation = activation_named(config.activation);
  if (config.layer_input_size > 0)
    decoder->layer_input = LayerInputConfig{.size = config.layer_input_size, .activation = *activation};
  // Each kind of layer turns the whole of its heads, or as many frequencies of it as its file says.
  for (std::int32_t index = 0; index < config.num_layers; ++index) {
    LayerConfig& layer = decoder->layers[static_cast<std::size_t>(index)];
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
    layer.output_scale = true;
    AttentionConfig& attention = *layer.attention();
    attention.query_key_norm = QueryKeyNorm::per_head;
    attention.value_norm = true;
    attention.key_is_value = config.keys_are_values && !config.has_window(index);
    RopeConfig& rope = decoder->ropes[static_cast<std::size_t>(attention.rope)];
    rope.rotary_size = attention.head_size;
    if (MixtureConfig* mixture = layer.mixture()) {
      mixture->router_norm = mixture->expert_scales = true;
      const DenseFeedForwardConfig dense = {
          .intermediate_size = config.layer_sizes.empty()
                                   ? config.intermediate_size
                                   : config.layer_sizes[static_cast<std::size_t>(index)].intermediate_size,
          .activation = *activation,
          .gated = true};
      layer.feed_forward = MixtureBesideDenseConfig{dense, *mixture};
    }
  }
  return share_kv(config, *std::move(decoder));
}

WeightNames names(ModelFormat format) {
  WeightNames names = layer_input_names(format);
  if (format == ModelFormat::gguf) {
    for (ExpertNames& experts : names.experts) {
      experts.router_norm = "ffn_gate_inp.scale";
      experts.expert_scales = "ffn_down_exps.scale";
    }
    names.mixture_norm = "pre_ffw_norm_2";
    names.mixture_branch_norm = "post_ffw_norm_2";
    names.dense_branch_norm = "post_ffw_norm_1";
    names.output_scale = "layer_output_scale.weight";
    return names;
  }
  names.experts = {{.router = "router.proj",
                    .down = "experts.down_proj",
                    .gate_up = "experts.gate_up_proj",
                    .weight = "",
                    .router_norm = "router.scale",
                    .expert_scales = "router.per_expert_scale"}};
  names.mixture_norm = "pre_feedforward_layernorm_2";
  names.mixture_branch_norm = "post_feedforward_layernorm_2";
  names.dense_branch_norm = "post_feedforward_layernorm_1";
  names.output_scale = "layer_scalar";
  return names;
}

// Layers with a window have a head size of their own; which have h that are values shows in the tensors.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu_new", .experts = {.known = true}}, config);
  config.attention_scale = 1;
  config.logit_softcap = h.number("final_logit_softcapping", 0.0f);
  config.rope_local_theta = h.number("rope.freq_base_swa", 10000.0f);
  config.shared_kv_layers = h.integer("attention.shared_kv_layers", 0);
  config.layer_input_size = h.integer("embedding_length_per_layer_input", 0);
  config.experts.layers.clear();  // all have one beside their dense feed-forward
  read_gguf_window_pattern(h, 6, config);
  const std::int32_t local_size = h.integer("attention.key_length_swa", config.head_size);
  if (h.integer("attention.value_length_swa", local_size) != local_size)
    h.fail(unimplemented("value heads of another size than key heads are not supported"));
  const std::vector<std::int32_t> kv_heads = h.of_layers("attention.head_count_kv", config.num_layers);
  const std::vector<std::int32_t> inner = h.of_layers("feed_forward_length", config.num_layers);
  if (!h.status().ok()) return;
  if (!config.window_layers.empty() && config.window_layers.size() != kv_heads.size())
    return h.fail(corrupt_data("GGUF metadata 'attention.sliding_window_pattern' is not of every layer"));
  const std::set<std::string_view> names = h.tensor_names();
  config.layer_sizes.clear();
  for (std::size_t layer = 0; layer < kv_heads.size(); ++layer) {
    const bool window = config.has_window(static_cast<std::int32_t>(layer));
    config.layer_sizes.push_back({.num_kv_heads = kv_heads[layer],
                                  .head_size = window ? local_size : config.head_size,
                                  .intermediate_size = inner[layer]});
    if (!window && names.contains(concat("blk.", layer, ".attn_k.weight")) &&
        !names.contains(concat("blk.", layer, ".attn_v.weight")))
      config.keys_are_values = true;
  }
  // The rotation of the larger heads is in the file; the smaller are turned whole.
  config.head_size = std::max(config.head_size, local_size);
  h.without_effect({"rope.dimension_count_swa"});
}

}  // namespace

PAGODA_FAMILY(gemma4) = {
    .architecture = "gemma4",
    .configs = {{"Gemma4ForCausalLM", "Gemma4TextModel", "gemma4_text", read_gemma4},
                {"Gemma4UnifiedForCausalLM", "Gemma4UnifiedTextModel", "gemma4_unified_text", read_gemma4}},
    .wrappers = {{"Gemma4ForConditionalGeneration", "gemma4", "gemma4_text"},
                 {"Gemma4UnifiedForConditionalGeneration", "gemma4_unified", "gemma4_unified_text"}},
    .ggufs = {{"gemma4", read_gguf}},
    .describe = describe,
    .names = names,
    .row = {.name = "Gemma 4: E2B, E4B, 12B, 26B-A4B, 31B (text)",
            .differs =
                "Gemma 3 with two head sizes, values that are normed and may be the keys, layers that read "
                "earlier ones' keys and values, inputs of layers, a mixture beside each dense feed-forward",
            .checked = "transformers",
            .size = "26B-A4B",
            .config = R"({"model_type":"gemma4_text","num_hidden_layers":30,"num_attention_heads":16,
                       "num_key_value_heads":8,"attention_k_eq_v":true,"num_global_key_value_heads":2,
                       "sliding_window":1024})"}};

}  // namespace pagoda
