// DeciLM (Nemotron Super, Ultra and 51B): Llama whose layers differ in the size of the feed-forward and the
// number of key-value heads; some layers have no attention or no feed-forward.
#include <algorithm>

#include "models/reading.h"

namespace pagoda::deci {

// Sets a layer's key-value heads and feed-forward size; 0: no attention, or no feed-forward.
void shape_layer(std::int32_t kv_heads, std::int32_t inner, LayerConfig& layer) {
  layer.attention()->num_kv_heads = kv_heads;
  layer.dense()->intermediate_size = inner;
  layer.mixer_norms.input = kv_heads > 0;
  layer.feed_forward_norms.input = inner > 0;
  if (kv_heads == 0) layer.mixer = NoMixerConfig{};
  if (inner == 0) layer.feed_forward = NoFeedForwardConfig{};
}

// Returns a sublayer in "block_configs"; null: the layer does not have it.
const json::object* sublayer_of(Hyperparameters& h, const json::value& block, std::string_view name) {
  const json::object* const whole = block.if_object();
  const json::value* const sublayer = whole != nullptr ? whole->if_contains(name) : nullptr;
  if (sublayer == nullptr || !sublayer->is_object()) {
    h.fail("block_configs", "an object with attention and ffn for each layer");
    return nullptr;
  }
  const Hyperparameters options(sublayer->get_object(), h.shared_status());
  Hyperparameters(sublayer->get_object(), h.shared_status()).only("replace_with_linear", false);
  const json::value* const left_out = options.find("no_op");
  return left_out != nullptr && *left_out == true ? nullptr : &sublayer->get_object();
}

void read_blocks_of(Hyperparameters& h, const json::array& blocks, ModelInfo& model) {
  DecoderConfig& decoder = model.decoder;
  const std::int32_t heads = decoder.layers.front().attention()->num_heads;
  for (std::size_t index = 0; index < blocks.size() && h.status().ok(); ++index) {
    std::int32_t kv_heads = 0, inner = 0;
    if (const json::object* const sublayer = sublayer_of(h, blocks[index], "attention")) {
      Hyperparameters options(*sublayer, h.shared_status());
      for (const std::string_view option : {"sparsify", "num_sink_tokens", "window_length"})
        options.only(option, nullptr);
      kv_heads = divide(heads, options.integer("n_heads_in_group"));
    }
    if (const json::object* const sublayer = sublayer_of(h, blocks[index], "ffn")) {
      Hyperparameters options(*sublayer, h.shared_status());
      options.only("sparsify", nullptr);
      const double width = 2.0 * options.number("ffn_mult") * decoder.hidden_size / 3;
      inner = static_cast<std::int32_t>(std::clamp(width, 0.0, double{1 << 28}) + 255) / 256 * 256;
    }
    shape_layer(kv_heads, inner, decoder.layers[index]);
    model.intermediate_size = std::max(model.intermediate_size, inner);
  }
}

void read(Hyperparameters& h, ModelInfo& model) {
  h.without_effect("num_key_value_heads_per_layer");
  const json::array* const list = list_of_layers(h, "block_configs", model);
  if (list == nullptr) return h.fail("block_configs", "a list with one entry for each layer");
  read_blocks_of(h, *list, model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  for (LayerConfig& layer : model.decoder.layers) {
    const AttentionConfig& attention = *layer.attention();
    if (attention.num_heads > 0 && attention.num_kv_heads == 0)
      return h.refuse("layers that have a matrix in place of attention are not supported");
    shape_layer(attention.num_kv_heads, layer.dense()->intermediate_size, layer);
  }
}

extern const Family family = {
    .configs = {{"DeciLMForCausalLM", "nemotron-nas",
                 R"({"vocab_size":128256,"hidden_size":8192,"num_hidden_layers":80,"num_attention_heads":64,
                     "num_key_value_heads":8,"max_position_embeddings":131072,"rope_theta":500000,
                     "bos_token_id":128000,"eos_token_id":128001})",
                 read}},
    .ggufs = {{"deci", {.interleaved_rows = true}, read_gguf}},
    .row = {.name = "DeciLM: Llama-Nemotron Super 49B, Ultra 253B",
            .differs = "layers with feed-forwards and key-value heads of their own, or without attention or "
                       "a feed-forward. Not with matrices in their place (51B)",
            .checked = "transformers' Llama with such layers",
            .size = "each layer with attention",
            .config = R"({"model_type":"nemotron-nas","num_hidden_layers":1,
                      "block_configs":[{"attention":{"n_heads_in_group":8},"ffn":{"ffn_mult":5.25}}]})"}};

}  // namespace pagoda::deci
