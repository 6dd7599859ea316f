// config.json of Gemma. Gemma 3: five layers with a window and their own rotation to one that attends to all.
#include <cmath>

#include "loader/config_families.h"

namespace pagoda {
void read_gemma(Fields& fields, ModelConfig& config) {
  read_common(fields, {256000, 3072, 24576, 28, 16, 16, 8192, 1e-6f, 10000.0f, 2, 1, 0, true, 256}, config);
  config.norm_weight_offset = 1;
  // "gelu", which old files have, is what the model was not trained with.
  config.activation = fields.string("hidden_act", fields.string("hidden_activation", "gelu_pytorch_tanh"));
  if (config.activation == "gelu") config.activation = "gelu_pytorch_tanh";
  fields.only("use_bidirectional_attention", false);
}

// Every second layer has a window, the first among them; soft caps on scores and logits.
void read_gemma2(Fields& fields, ModelConfig& config) {
  read_common(fields, {256000, 2304, 9216, 26, 8, 4, 8192, 1e-6f, 10000.0f, 2, 1, 0, true, 256}, config);
  config.norm_weight_offset = 1;
  config.activation = fields.string("hidden_activation", "gelu_pytorch_tanh");
  const float scalar = fields.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) fields.fail("query_pre_attn_scalar", "a positive number");
  config.attention_scale = 1.0f / std::sqrt(scalar);
  config.attention_softcap =
      fields.written("attn_logit_softcapping") ? fields.number("attn_logit_softcapping", 0) : 50;
  config.logit_softcap =
      fields.written("final_logit_softcapping") ? fields.number("final_logit_softcapping", 0) : 30;
  fields.only("use_bidirectional_attention", false);
  config.sliding_window = fields.integer("sliding_window", 4096);
  read_window_pattern(fields, config, 2);
}

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
  config.encoder = fields.boolean("use_bidirectional_attention", false);  // EmbeddingGemma
  fields.find("attn_logit_softcapping");  // transformers reads it and does nothing with it
  config.logit_softcap = fields.number("final_logit_softcapping", 0);
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : 2;
  config.pad_token_id = 0;
  config.eos_token_ids = {1};
  read_rope_by_layer(fields, config, 1000000.0f, 10000.0f);

  config.sliding_window = fields.integer("sliding_window", 4096);
  // So many tokens together, half of them on each side.
  if (config.encoder) config.sliding_window = config.sliding_window / 2 + 1;
  fields.find("_sliding_window_pattern");
  read_window_pattern(fields, config, 6);
}

}  // namespace pagoda
