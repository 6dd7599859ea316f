// config.json of encoders: every token attends to all others, and the result is a vector.
#include <algorithm>

#include "loader/config_families.h"

namespace pagoda {
namespace {

void read_bert_like(Fields& fields, ModelConfig& config, std::int32_t vocab_size, std::int32_t pad) {
  config.encoder = true;
  config.vocab_size = fields.integer("vocab_size", vocab_size);
  config.hidden_size = fields.integer("hidden_size", 768);
  config.intermediate_size = fields.integer("intermediate_size", 3072);
  config.num_layers = fields.integer("num_hidden_layers", 12);
  config.num_heads = config.num_kv_heads = fields.integer("num_attention_heads", 12);
  config.head_size = divide(config.hidden_size, config.num_heads);
  config.max_positions = fields.integer("max_position_embeddings", 512);
  config.token_types = std::max(fields.integer("type_vocab_size", 2), 0);
  config.norm_eps = fields.number("layer_norm_eps", 1e-12f);
  config.activation = fields.string("hidden_act", "gelu");
  config.attention_bias = true;
  config.pad_token_id = fields.written("pad_token_id") ? fields.integer("pad_token_id", -1) : pad;
  fields.only("is_decoder", false);
  fields.only("add_cross_attention", false);
  if (fields.string("position_embedding_type", "absolute") != "absolute")
    fields.refuse("config.json: 'position_embedding_type' can only be 'absolute'");
}

// Nomic Embed 2: in every so-manyth layer, the second first.
void read_nomic_mixtures(Fields& fields, ModelConfig& config) {
  const std::int32_t period = fields.integer("moe_every_n_layers", 0);
  ExpertsConfig& experts = config.experts;
  experts.count = fields.integer("num_experts", 0);
  experts.per_token = fields.integer("moe_top_k", 1);
  experts.intermediate_size = config.intermediate_size;
  experts.renormalize = fields.boolean("moe_normalize_expert_weights", false);
  fields.only("num_shared_experts", 0);
  fields.only("expert_choice_router", false);
  if (period < 1) {
    experts = {};
    return;
  }
  if (config.activation != "gelu")
    fields.refuse("config.json: mixtures of NomicBert with another activation than 'gelu' are not supported");
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    experts.layers.push_back(layer % period == 1 % period);
}

}  // namespace

void read_bert(Fields& fields, ModelConfig& config) { read_bert_like(fields, config, 30522, 0); }

// Positions are counted from behind the padding's, whose row is its token's id.
void read_roberta(Fields& fields, ModelConfig& config) {
  read_bert_like(fields, config, config.family == "roberta" ? 50265 : 30522, 1);
  config.eos_token_ids = {2};
  config.position_offset = std::clamp(config.pad_token_id, 0, 1 << 20) + 1;
  config.max_positions -= config.position_offset;
}

// A gated feed-forward and rotation instead of learned positions.
void read_nomic_bert(Fields& fields, ModelConfig& config) {
  read_bert_like(fields, config, 30528, 0);
  // As the files on hubs were written, under GPT-2's names.
  config.hidden_size = fields.integer("n_embd", config.hidden_size);
  config.num_layers = fields.integer("n_layer", config.num_layers);
  config.num_heads = config.num_kv_heads = fields.integer("n_head", config.num_heads);
  config.intermediate_size = fields.integer("n_inner", config.intermediate_size);
  config.head_size = fields.integer("head_dim", divide(config.hidden_size, config.num_heads));
  config.norm_eps = fields.number("layer_norm_epsilon", config.norm_eps);
  config.max_positions = fields.written("max_position_embeddings")
                             ? config.max_positions
                             : fields.integer("max_trained_positions", 2048);
  const std::string function = fields.string("activation_function", fields.string("hidden_act", "silu"));
  config.activation = function == "swiglu" ? "silu" : function;
  if (config.activation != "silu" && config.activation != "gelu")
    fields.refuse("config.json: the activation of NomicBert can only be 'swiglu' or 'gelu'");
  if (config.activation == "gelu") config.architecture = "nomic-bert plain";
  read_nomic_mixtures(fields, config);
  fields.only("prenorm", false);
  fields.only("use_rms_norm", false);
  if (fields.number("rotary_emb_fraction", 1.0f) != 1.0f)
    fields.refuse("config.json: 'rotary_emb_fraction' can only be 1");
  read_rope(fields, config, fields.number("rotary_emb_base", 1000.0f));
}

// Norms before each half, a gated feed-forward, windows in two of three layers.
void read_modern_bert(Fields& fields, ModelConfig& config) {
  config.encoder = true;
  config.vocab_size = fields.integer("vocab_size", 50368);
  config.hidden_size = fields.integer("hidden_size", 768);
  config.intermediate_size = fields.integer("intermediate_size", 1152);
  config.num_layers = fields.integer("num_hidden_layers", 22);
  config.num_heads = config.num_kv_heads = fields.integer("num_attention_heads", 12);
  config.head_size = divide(config.hidden_size, config.num_heads);
  config.max_positions = fields.integer("max_position_embeddings", 8192);
  config.norm_eps = fields.number("norm_eps", 1e-5f);
  config.activation = fields.string("hidden_activation", "gelu");
  config.attention_bias = fields.boolean("attention_bias", false);
  config.pad_token_id = 50283;
  config.eos_token_ids = {50282};
  // So many tokens together, half of them on each side.
  config.sliding_window = std::max(fields.integer("local_attention", 128), 0) / 2 + 1;
  if (!read_layer_types(fields, config)) {
    const std::int32_t period = fields.integer("global_attn_every_n_layers", 3);
    if (period < 1) return fields.fail("global_attn_every_n_layers", "a positive integer");
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(layer % period != 0);
  }
  finish_windows(fields, config);
  read_rope_by_layer(fields, config, fields.number("global_rope_theta", 160000.0f),
                     fields.number("local_rope_theta", 10000.0f));
}

}  // namespace pagoda
