// config.json of OPT and GPT-2.
#include <algorithm>
#include <limits>

#include "loader/config_families.h"

namespace pagoda {
namespace {

void finish_heads(Fields& fields, ModelConfig& config) {
  config.num_kv_heads = config.num_heads;
  config.head_size = divide(config.hidden_size, config.num_heads);
  if (config.num_heads > 0 && config.hidden_size % config.num_heads != 0)
    fields.corrupt("config.json: the hidden size is not a multiple of the number of heads");
}

}  // namespace

void read_opt(Fields& fields, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", 50272);
  config.hidden_size = fields.integer("hidden_size", 768);
  config.intermediate_size = fields.integer("ffn_dim", 3072);
  config.num_layers = fields.integer("num_hidden_layers", 12);
  config.num_heads = fields.integer("num_attention_heads", 12);
  config.max_positions = fields.integer("max_position_embeddings", 2048);
  config.embedding_size = fields.integer("word_embed_proj_dim", config.hidden_size);
  config.norm_before = fields.boolean("do_layer_norm_before", true);
  config.final_norm = config.norm_before && !fields.boolean("_remove_final_layer_norm", false);
  config.activation = fields.string("activation_function", "relu");
  config.attention_bias = fields.boolean("enable_bias", true);
  config.tie_embeddings = fields.boolean("tie_word_embeddings", true);
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : 2;
  if (!fields.written("eos_token_id")) config.eos_token_ids = {2};
  if (!fields.written("pad_token_id")) config.pad_token_id = 1;
  fields.only("layer_norm_elementwise_affine", true);
  finish_heads(fields, config);
}

void read_gpt2(Fields& fields, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", 50257);
  config.hidden_size = fields.integer("n_embd", 768);
  const std::int64_t inner = fields.integer("n_inner", 0);
  const std::int64_t four_times = std::int64_t{4} * config.hidden_size;
  config.intermediate_size = static_cast<std::int32_t>(
      inner != 0 ? inner : std::min<std::int64_t>(four_times, std::numeric_limits<std::int32_t>::max()));
  config.num_layers = fields.integer("n_layer", 12);
  config.num_heads = fields.integer("n_head", 12);
  config.max_positions = fields.integer("n_positions", 1024);
  config.norm_eps = fields.number("layer_norm_epsilon", 1e-5f);
  config.activation = fields.string("activation_function", "gelu_new");
  config.attention_bias = true;
  config.tie_embeddings = fields.boolean("tie_word_embeddings", true);
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : 50256;
  if (!fields.written("eos_token_id")) config.eos_token_ids = {50256};
  fields.only("scale_attn_weights", true);
  fields.only("scale_attn_by_inverse_layer_idx", false);
  fields.only("add_cross_attention", false);
  finish_heads(fields, config);
}

}  // namespace pagoda
