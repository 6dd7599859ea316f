// config.json of Llama and its nearest relatives.
#include "loader/config_families.h"

namespace pagoda {
namespace {

// Qwen's windows: either "from layer max_window_layers on", or written out per layer.
void read_window_layers(Fields& fields, std::int32_t absent_first, ModelConfig& config) {
  config.sliding_window = read_optional_window(fields);
  const std::int32_t first = fields.integer("max_window_layers", absent_first);
  if (!read_layer_types(fields, config)) {
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(config.sliding_window > 0 && layer >= first);
  }
  finish_windows(fields, config);
}

}  // namespace

// Llama, Mistral, Qwen2 and Qwen3 differ in defaults and in where the window comes from.
void read_llama_like(Fields& fields, ModelConfig& config) {
  const bool llama = config.architecture == "llama", mistral = config.architecture == "mistral";
  const bool qwen = !llama && !mistral;
  config.vocab_size = fields.integer("vocab_size", qwen ? 151936 : 32000);
  config.hidden_size = fields.integer("hidden_size", 4096);
  config.intermediate_size = fields.integer("intermediate_size", llama ? 11008 : mistral ? 14336 : 22016);
  config.num_layers = fields.integer("num_hidden_layers", 32);
  config.num_heads = fields.integer("num_attention_heads", 32);
  const std::int32_t absent_kv_heads = llama ? config.num_heads : mistral ? 8 : 32;
  config.num_kv_heads = fields.integer(
      "num_key_value_heads", fields.written("num_key_value_heads") ? config.num_heads : absent_kv_heads);
  const bool fixed_head = config.architecture == "qwen3" && !fields.written("head_dim");
  config.head_size =
      fields.integer("head_dim", fixed_head ? 128 : divide(config.hidden_size, config.num_heads));
  const bool sees = config.family.starts_with("qwen3_vl");  // the text part of a model that does
  config.max_positions = fields.integer("max_position_embeddings", llama     ? 2048
                                                                   : mistral ? 131072
                                                                   : sees    ? 128000
                                                                             : 32768);
  config.norm_eps = fields.number("rms_norm_eps", 1e-6f);
  config.activation = fields.string("hidden_act", "silu");
  config.tie_embeddings = fields.boolean("tie_word_embeddings", false);
  config.attention_bias = fields.boolean("attention_bias", config.architecture == "qwen2");
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : qwen ? -1 : 1;
  if (!fields.written("eos_token_id") && !qwen) config.eos_token_ids = {2};
  read_rope(fields, config, sees ? 500000.0f : 10000.0f);
  if (qwen) {
    read_window_layers(fields, 28, config);
  } else if (mistral) {
    config.sliding_window = fields.written("sliding_window") ? fields.integer("sliding_window", 0) : 4096;
    if (const json::value* types = fields.find("layer_types")) {
      const std::string_view all = config.sliding_window > 0 ? "sliding_attention" : "full_attention";
      const json::array* list = types->if_array();
      if (list == nullptr) return fields.fail("layer_types", "a list of strings");
      for (const json::value& type : *list) {
        if (!type.is_string() || std::string_view(type.get_string()) != all) {
          fields.refuse(
              "config.json: 'layer_types' that differ between layers are not supported for Mistral");
        }
      }
    }
  } else {
    fields.only("sliding_window", nullptr);
  }
}

// Of Qwen2-VL and Qwen2.5-VL. Text has one position for all of a token's three.
void read_qwen2_vl(Fields& fields, ModelConfig& config) {
  read_common(fields, {152064, 8192, 29568, 80, 64, 8, 32768, 1e-5f, 1000000.0f, 151643, 151645, -1, false},
              config);
  config.attention_bias = true;
  read_window_layers(fields, 80, config);
}

}  // namespace pagoda
