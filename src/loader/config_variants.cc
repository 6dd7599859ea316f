// config.json of families that are Llama but for one or two things.
#include "loader/config_families.h"

namespace pagoda {

void read_common(Fields& fields, const Defaults& absent, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", absent.vocab_size);
  config.hidden_size = fields.integer("hidden_size", absent.hidden_size);
  config.intermediate_size = fields.integer("intermediate_size", absent.intermediate_size);
  config.num_layers = fields.integer("num_hidden_layers", absent.num_layers);
  config.num_heads = fields.integer("num_attention_heads", absent.num_heads);
  const bool given = fields.written("num_key_value_heads") || absent.num_kv_heads == 0;
  config.num_kv_heads = fields.integer("num_key_value_heads", given ? config.num_heads : absent.num_kv_heads);
  config.head_size = fields.integer("head_dim", divide(config.hidden_size, config.num_heads));
  config.max_positions = fields.integer("max_position_embeddings", absent.max_positions);
  config.norm_eps = fields.number("rms_norm_eps", absent.norm_eps);
  config.activation = fields.string("hidden_act", "silu");
  config.tie_embeddings = fields.boolean("tie_word_embeddings", absent.tied);
  config.attention_bias = fields.boolean("attention_bias", false);
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : absent.bos;
  config.pad_token_id = absent.pad;
  if (absent.eos >= 0) config.eos_token_ids = {absent.eos};
  read_rope(fields, config, absent.rope_theta);
}

void read_granite(Fields& fields, ModelConfig& config) {
  read_common(fields, {32000, 4096, 11008, 32, 32, 0, 2048, 1e-6f, 10000.0f, 1, 2, -1, false}, config);
  config.embedding_scale = fields.number("embedding_multiplier", 1);
  config.residual_scale = fields.number("residual_multiplier", 1);
  config.attention_scale = fields.number("attention_multiplier", 1);
  config.logit_scale = 1 / fields.number("logits_scaling", 1);
}

void read_olmo2(Fields& fields, ModelConfig& config) {
  read_common(fields, {50304, 4096, 11008, 32, 32, 0, 2048, 1e-5f, 10000.0f, -1, 50279, 1, false}, config);
}

void read_phi3(Fields& fields, ModelConfig& config) {
  read_common(fields, {32064, 3072, 8192, 32, 32, 0, 4096, 1e-5f, 10000.0f, 1, 32000, 32000, false}, config);
  config.sliding_window = fields.integer("sliding_window", 0);
}

void read_smollm3(Fields& fields, ModelConfig& config) {
  read_common(fields,
              {128256, 2048, 11008, 36, 16, 4, 32768, 1e-6f, 2000000.0f, 128000, 128001, 128004, true},
              config);
  fields.only("use_sliding_window", false);
  if (fields.find("no_rope_layers") != nullptr) {
    for (const bool rotates : fields.flags("no_rope_layers", listed_layers(config)))
      config.rope_layers.push_back(rotates);  // 1: rotates, whatever the name says
    return;
  }
  const std::int32_t interval = fields.integer("no_rope_layer_interval", 4);
  if (interval < 1) return fields.fail("no_rope_layer_interval", "a positive integer");
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    config.rope_layers.push_back((layer + 1) % interval != 0);
}

}  // namespace pagoda
