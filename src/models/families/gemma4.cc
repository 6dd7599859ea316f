// Gemma 4: Gemma 3 with separate head sizes for layers with a window and with full attention, norms of
// values, unscaled scores, and an output scale per layer. E2B and E4B: per-layer inputs, and layers that read
// earlier layers' keys and values. 12B and 31B: keys that are also values. 26B-A4B: a mixture beside each
// dense feed-forward.
#include <algorithm>
#include <cmath>

#include "models/reading.h"

namespace pagoda::gemma4 {

// Layers with a window: all but every sixth, and never the last.
void read_windows(Hyperparameters& h, std::int32_t window, ModelInfo& model) {
  std::vector<bool> layers =
      read_window_layers_or(h, model, [](std::int32_t layer) { return (layer + 1) % 6 != 0; });
  if (!layers.empty()) layers.back() = false;
  use_windows(h, window, layers, model);
}

// Reads values of single layers: {"5": {"head_dim": 512}, ...}
void read_layer_config(Hyperparameters& h, ModelInfo& model) {
  const json::object* layers = h.object("per_layer_config");
  if (layers == nullptr) return;
  for (std::int32_t index = 0; index < model.decoder.num_layers(); ++index) {
    const json::value* layer = layers->if_contains(std::to_string(index));
    if (layer == nullptr) continue;
    if (!layer->is_object()) return h.fail("per_layer_config", "an object of objects");
    Hyperparameters own(layer->get_object(), h.shared_status());
    AttentionConfig& attention = *model.decoder.layers[static_cast<std::size_t>(index)].attention();
    attention.head_size = own.integer("head_dim", attention.head_size);
    attention.num_kv_heads = own.integer("num_key_value_heads", attention.num_kv_heads);
    for (const auto& [key, value] : layer->get_object())
      if (key != "head_dim" && key != "num_key_value_heads")
        h.refuse(concat("config.json: per_layer_config has '", printable(key), "', which is not supported"));
  }
}

void use_layer_inputs(std::int32_t size, DecoderConfig& decoder) {
  if (size != 0)
    decoder.layer_input =
        LayerInputConfig{.size = size, .activation = decoder.layers.front().dense()->activation};
}

// Puts the mixture beside every layer's dense feed-forward.
void mix_beside_dense(const MixtureConfig& mixture, ModelInfo& model) {
  std::vector<FeedForwardConfig> dense;
  for (const LayerConfig& layer : model.decoder.layers) dense.push_back(layer.feed_forward);
  use_mixtures(mixture, {}, model);
  for (std::size_t index = 0; index < dense.size(); ++index) {
    LayerConfig& layer = model.decoder.layers[index];
    if (MixtureConfig* const beside = layer.mixture()) {
      beside->router_norm = beside->expert_scales = true;
      layer.feed_forward = MixtureBesideDenseConfig{std::get<DenseFeedForwardConfig>(dense[index]), *beside};
    }
  }
}

void read_gemma4(Hyperparameters& h, ModelInfo& model) {
  read_layers(h, model);
  DecoderConfig& decoder = model.decoder;
  decoder.logit_softcap = h.number("final_logit_softcapping", 0);
  // "vision" concerns images, which are not read.
  if (h.string("use_bidirectional_attention", "") != "vision") h.only("use_bidirectional_attention", nullptr);

  read_windows(h, h.integer("sliding_window"), model);
  const bool keys_are_values = h.boolean("attention_k_eq_v", false);
  const std::int32_t shared = h.integer("num_kv_shared_layers", 0);
  const bool wide = h.boolean("use_double_wide_mlp", false);
  const std::int32_t full_size = h.integer("global_head_dim", 512);
  const std::int32_t kv_heads = decoder.layers.front().attention()->num_kv_heads;
  const std::int32_t full_heads =
      keys_are_values ? h.integer("num_global_key_value_heads", kv_heads) : kv_heads;
  for (std::int32_t index = 0; index < decoder.num_layers(); ++index) {
    LayerConfig& layer = decoder.layers[static_cast<std::size_t>(index)];
    if (wide && index >= decoder.num_layers() - shared)
      layer.dense()->intermediate_size = times(2, std::min(model.intermediate_size, 1 << 24));
    AttentionConfig& attention = *layer.attention();
    if (attention.sliding_window > 0) continue;
    attention.num_kv_heads = full_heads;
    attention.head_size = full_size;
    attention.key_is_value = keys_are_values;
  }
  read_layer_config(h, model);
  read_rope_by_layer(h, model, 1000000.0f, 10000.0f);
  if (RopeConfig& rope = decoder.ropes.front(); h.find("rope_parameters") == nullptr)
    rope.turned = rope.rotary_size / 8 * 2;
  share_kv(h, shared, decoder);

  const std::int32_t input_size = h.integer("hidden_size_per_layer_input", 256);
  if (input_size > 0 && h.integer("vocab_size_per_layer_input", 262144) != decoder.vocab_size)
    h.refuse("config.json: 'vocab_size_per_layer_input' other than 'vocab_size' is not supported");
  use_layer_inputs(input_size, decoder);
  if (!h.boolean("enable_moe_block", false))
    return h.without_effect("num_experts top_k_experts moe_intermediate_size");
  MixtureConfig mixture;
  mixture.routing.num_experts = h.integer("num_experts", 0);
  mixture.routing.per_token = h.integer("top_k_experts", 0);
  mixture.routing.renormalize = true;
  mixture.expert.intermediate_size = h.integer("moe_intermediate_size", 0);
  if (mixture.routing.num_experts < 1) h.fail("num_experts", "given where mixtures are enabled");
  mix_beside_dense(mixture, model);
}

// Each kind of layer rotates whole heads, or as many frequencies as its file says.
void shape(DecoderConfig& decoder) {
  sandwich_gemma_shape(decoder);
  norm_heads(decoder);
  scale_attention(1, decoder);
  for (LayerConfig& layer : decoder.layers) {
    layer.output_scale = true;
    layer.attention()->value_norm = true;
    decoder.ropes[static_cast<std::size_t>(layer.attention()->rope)].rotary_size =
        layer.attention()->head_size;
  }
}

void names(WeightNames& names) {
  layer_input_names(names);
  names.experts = {{.router = "router.proj",
                    .down = "experts.down_proj",
                    .gate_up = "experts.gate_up_proj",
                    .weight = ""}};
  names.experts.push_back(mlx_experts(names.experts.front(), "experts.switch_glu"));
  for (ExpertNames& experts : names.experts) {
    experts.router_norm = "router.scale";
    experts.expert_scales = "router.per_expert_scale";
  }
  names.mixture_norm = "pre_feedforward_layernorm_2";
  names.mixture_branch_norm = "post_feedforward_layernorm_2";
  names.dense_branch_norm = "post_feedforward_layernorm_1";
  names.output_scale = "layer_scalar";
}

void expert_gguf_names(WeightNames& names) {
  for (ExpertNames& experts : names.experts) {
    experts.router_norm = "ffn_gate_inp.scale";
    experts.expert_scales = "ffn_down_exps.scale";
  }
}

// Layers with a window have their own head size; the tensors show which layers use keys as values.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  DecoderConfig& decoder = model.decoder;
  decoder.logit_softcap = h.number("final_logit_softcapping", 0.0f);
  rotate_windows_by(h.number("rope.freq_base_swa", 10000.0f), model);
  use_layer_inputs(h.integer("embedding_length_per_layer_input", 0), decoder);
  read_gguf_window_pattern(h, 6, model);
  const std::int32_t head_size = decoder.layers.front().attention()->head_size;
  const std::int32_t local_size = h.integer("attention.key_length_swa", head_size);
  if (h.integer("attention.value_length_swa", local_size) != local_size)
    h.fail(unimplemented("value heads of another size than key heads are not supported"));
  const std::set<std::string_view> names = h.tensor_names();
  for (std::size_t index = 0; index < decoder.layers.size(); ++index) {
    AttentionConfig& attention = *decoder.layers[index].attention();
    if (attention.sliding_window > 0)
      attention.head_size = local_size;
    else
      attention.key_is_value = names.contains(concat("blk.", index, ".attn_k.weight")) &&
                               !names.contains(concat("blk.", index, ".attn_v.weight"));
  }
  share_kv(h, h.integer("attention.shared_kv_layers", 0), decoder);
  mix_beside_dense(read_gguf_mixture(h, {}, model), model);
  h.without_effect("rope.dimension_count_swa");
}

extern const Family family = {
    .configs = {{"Gemma4ForCausalLM", "gemma4_text",
                 R"({"vocab_size":262144,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":30,
                     "num_attention_heads":8,"max_position_embeddings":131072,"num_key_value_heads":4,
                     "rms_norm_eps":1e-6,"bos_token_id":2,"eos_token_id":1,"pad_token_id":0,
                     "tie_word_embeddings":true,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh",
                     "sliding_window":512})",
                 read_gemma4, Reads::all},
                {"Gemma4UnifiedForCausalLM", "gemma4_unified_text",
                 R"({"vocab_size":262144,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":30,
                     "num_attention_heads":8,"max_position_embeddings":262144,"num_key_value_heads":4,
                     "rms_norm_eps":1e-6,"bos_token_id":2,"eos_token_id":1,"pad_token_id":0,
                     "tie_word_embeddings":true,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh",
                     "sliding_window":1024})",
                 read_gemma4, Reads::all}},
    .wrappers = {{"Gemma4ForConditionalGeneration", "gemma4", "gemma4_text"},
                 {"Gemma4UnifiedForConditionalGeneration", "gemma4_unified", "gemma4_unified_text"}},
    .ggufs = {{"gemma4",
               {.activation = "gelu_new", .experts = {.known = true, .in_layers = false}},
               read_gguf}},
    .shape = shape,
    .names = names,
    .gguf_names = expert_gguf_names,
    .row = {.name = "Gemma 4: E2B, E4B, 12B, 26B-A4B, 31B (text)",
            .differs =
                "Gemma 3 with two head sizes, normed values that may be the keys, layers that reuse earlier "
                "layers' keys and values, per-layer inputs, a mixture beside each dense feed-forward",
            .size = "26B-A4B",
            .config = R"({"model_type":"gemma4_text","num_hidden_layers":30,"num_attention_heads":16,
                          "num_key_value_heads":8,"attention_k_eq_v":true,"num_global_key_value_heads":2,
                          "sliding_window":1024})"}};

}  // namespace pagoda::gemma4
