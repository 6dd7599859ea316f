// config.json of Gemma 3: five layers with a window and their own rotation to one that attends to all.
#include <cmath>

#include "loader/config_families.h"

namespace pagoda {
namespace {

// Both ways of transformers: one base each (4), or an object for each kind of layer (5).
void read_two_ropes(Fields& fields, ModelConfig& config) {
  config.rope_local_theta = fields.number("rope_local_base_freq", 10000.0f);
  const json::object* both = fields.object("rope_parameters");
  const json::value* full = both != nullptr ? both->if_contains("full_attention") : nullptr;
  const json::value* sliding = both != nullptr ? both->if_contains("sliding_attention") : nullptr;
  if (full == nullptr && sliding == nullptr) return read_rope(fields, config, 1000000.0f);
  config.rotary_size = config.head_size;
  config.rope_theta = 1000000.0f;
  for (const json::value* each : {full, sliding}) {
    if (each == nullptr || each->is_null()) continue;
    if (!each->is_object()) return fields.fail("rope_parameters", "an object for each kind of layer");
    Fields rope(each->get_object(), fields.shared_status());
    if (each == full) {
      read_rope_object(fields, rope, "rope_parameters.full_attention", config);
    } else {
      rope.only("rope_type", "default");
      config.rope_local_theta = rope.number("rope_theta", config.rope_local_theta);
    }
  }
}

}  // namespace

void read_gemma3(Fields& fields, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", 262208);
  config.hidden_size = fields.integer("hidden_size", 2304);
  config.intermediate_size = fields.integer("intermediate_size", 9216);
  config.num_layers = fields.integer("num_hidden_layers", 26);
  config.num_heads = fields.integer("num_attention_heads", 8);
  config.num_kv_heads = fields.integer("num_key_value_heads", 4);
  config.head_size = fields.integer("head_dim", 256);
  config.max_positions = fields.integer("max_position_embeddings", 131072);
  config.norm_eps = fields.number("rms_norm_eps", 1e-6f);
  config.norm_weight_offset = 1;
  config.activation = fields.string("hidden_activation", "gelu_pytorch_tanh");
  config.tie_embeddings = fields.boolean("tie_word_embeddings", true);
  config.attention_bias = fields.boolean("attention_bias", false);
  const float scalar = fields.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) fields.fail("query_pre_attn_scalar", "a positive number");
  config.attention_scale = 1.0f / std::sqrt(scalar);
  fields.only("use_bidirectional_attention", false);
  fields.only("attn_logit_softcapping", nullptr);
  fields.only("final_logit_softcapping", nullptr);
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : 2;
  config.pad_token_id = 0;
  config.eos_token_ids = {1};
  read_two_ropes(fields, config);

  config.sliding_window = fields.integer("sliding_window", 4096);
  if (!read_layer_types(fields, config)) {
    const std::int32_t pattern =
        fields.integer("sliding_window_pattern", fields.integer("_sliding_window_pattern", 6));
    if (pattern < 1) return fields.fail("sliding_window_pattern", "a positive integer");
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back((layer + 1) % pattern != 0);
  }
  finish_windows(fields, config);
}

}  // namespace pagoda
