// config.json of families with layer norms. In most the feed-forward sees what attention sees.
#include <algorithm>
#include <limits>

#include "loader/config_families.h"

namespace pagoda {
namespace {

std::int32_t times(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(std::int64_t{a} * b, std::numeric_limits<std::int32_t>::max()));
}

// Under the names of GPT-2.
void read_heads(Fields& fields, ModelConfig& config, std::string_view hidden, std::string_view layers,
                std::string_view heads, const Defaults& absent) {
  config.vocab_size = fields.integer("vocab_size", absent.vocab_size);
  config.hidden_size = fields.integer(hidden, absent.hidden_size);
  config.num_layers = fields.integer(layers, absent.num_layers);
  config.num_heads = config.num_kv_heads = fields.integer(heads, absent.num_heads);
  config.head_size = divide(config.hidden_size, config.num_heads);
  config.norm_eps = fields.number("layer_norm_epsilon", absent.norm_eps);
  config.tie_embeddings = fields.boolean("tie_word_embeddings", absent.tied);
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : absent.bos;
  if (absent.eos >= 0 && !fields.written("eos_token_id")) config.eos_token_ids = {absent.eos};
}

}  // namespace

void read_starcoder2(Fields& fields, ModelConfig& config) {
  Defaults absent = {49152, 3072, 12288, 30, 24, 2, 4096, 1e-5f, 10000.0f, 50256, 50256, -1, true};
  absent.eps_name = "norm_epsilon";
  absent.activation = "gelu_pytorch_tanh";
  read_common(fields, absent, config);
  config.sliding_window = fields.integer("sliding_window", 0);
}

void read_stablelm(Fields& fields, ModelConfig& config) {
  Defaults absent = {50304, 2560, 6912, 32, 32, 0, 4096, 1e-5f, 10000.0f, 0, 0, -1, false, 0, 0.25f};
  absent.eps_name = "layer_norm_eps";
  read_common(fields, absent, config);
  config.parallel = fields.boolean("use_parallel_residual", false);
  config.query_key_norm = fields.boolean("qk_layernorm", false);
}

void read_nemotron(Fields& fields, ModelConfig& config) {
  Defaults absent = {256000, 6144, 24576, 32, 48, 0, 4096, 1e-5f, 10000.0f, 2, 3, -1, false, 0, 0.5f};
  absent.eps_name = "norm_eps";
  absent.activation = "relu2";
  read_common(fields, absent, config);
  config.norm_weight_offset = 1;
}

// Phi-1, 1.5 and 2.
void read_phi(Fields& fields, ModelConfig& config) {
  Defaults absent = {51200, 2048, 8192, 24, 32, 0, 2048, 1e-5f, 10000.0f, 1, 2, -1, false, 0, 0.5f};
  absent.eps_name = "layer_norm_eps";
  absent.activation = "gelu_new";
  read_common(fields, absent, config);
  config.parallel = true;
  fields.only("qk_layernorm", false);
}

void read_gpt_neox(Fields& fields, ModelConfig& config) {
  Defaults absent = {50432, 6144,  24576,
                     44,    64,    0,
                     2048,  1e-5f, fields.number("rotary_emb_base", 10000.0f),
                     0,     2,     -1,
                     false, 0,     fields.number("rotary_pct", 0.25f)};
  absent.eps_name = "layer_norm_eps";
  absent.activation = "gelu";
  read_common(fields, absent, config);
  config.num_kv_heads = config.num_heads;
  config.parallel = fields.boolean("use_parallel_residual", true);
}

void read_gptj(Fields& fields, ModelConfig& config) {
  read_heads(fields, config, "n_embd", "n_layer", "n_head",
             {50400, 4096, 0, 28, 16, 0, 2048, 1e-5f, 10000.0f, 50256, 50256, -1, false});
  const std::int32_t inner = fields.integer("n_inner", 0);
  config.intermediate_size = inner != 0 ? inner : times(4, config.hidden_size);
  config.max_positions = fields.integer("n_positions", 2048);
  config.activation = fields.string("activation_function", "gelu_new");
  config.rotary_size = fields.integer("rotary_dim", 64);
  config.rope_interleaved_rows = config.parallel = true;
}

// Falcon 7B and 40B: both halves see the same, through one norm or a norm each.
void read_falcon(Fields& fields, ModelConfig& config) {
  read_heads(fields, config, "hidden_size", "num_hidden_layers", "num_attention_heads",
             {65024, 4544, 0, 32, 71, 0, 2048, 1e-5f, 10000.0f, 11, 11, -1, true});
  const bool grouped = fields.boolean("new_decoder_architecture", false);
  fields.find("num_kv_heads");  // of the grouped ones
  if (grouped)
    config.num_kv_heads = fields.integer("num_kv_heads", config.num_heads);
  else if (fields.boolean("multi_query", true))
    config.num_kv_heads = 1;
  const std::int32_t norms = fields.integer("num_ln_in_parallel_attn", grouped ? 2 : 1);
  if (grouped && norms == 2) config.architecture = "falcon two norms";
  config.intermediate_size = fields.integer("ffn_hidden_size", times(4, config.hidden_size));
  config.max_positions = fields.integer("max_position_embeddings", 2048);
  config.activation = fields.string("activation", "gelu");
  config.parallel = true;
  if (!grouped) fields.only("parallel_attn", true);
  fields.only("alibi", false);
  read_rope(fields, config);
}

void read_bloom(Fields& fields, ModelConfig& config) {
  const std::string_view hidden = fields.find("n_embed") != nullptr ? "n_embed" : "hidden_size";
  const std::string_view layers =
      fields.find("num_hidden_layers") != nullptr ? "num_hidden_layers" : "n_layer";
  const std::string_view heads =
      fields.find("num_attention_heads") != nullptr ? "num_attention_heads" : "n_head";
  read_heads(fields, config, hidden, layers, heads, {250880, 64, 0, 2, 8, 0, 0, 1e-5f, 0, 1, 2, -1, true});
  config.intermediate_size = times(4, config.hidden_size);
  config.max_positions = fields.integer("seq_length", 2048);  // ALiBi has no limit of its own
  config.activation = "gelu_new";
  config.alibi_max = 8;
  fields.only("apply_residual_connection_post_layernorm", false);
}

void read_mpt(Fields& fields, ModelConfig& config) {
  read_heads(fields, config, "d_model", "n_layers", "n_heads",
             {50368, 2048, 0, 24, 16, 0, 2048, 1e-5f, 10000.0f, -1, -1, -1, true});
  config.intermediate_size = times(fields.integer("expansion_ratio", 4), config.hidden_size);
  config.max_positions = fields.integer("max_seq_len", 2048);
  config.activation = "gelu";
  config.alibi_max = 8;
  fields.only("no_bias", true);
  fields.only("learned_pos_emb", true);
  fields.only("norm_type", "low_precision_layernorm");
  if (const json::object* attention = fields.object("attn_config")) {
    Fields inner(*attention, fields.shared_status());
    config.attention_clip = inner.number("clip_qkv", 0);
    inner.only("qk_ln", false);
    inner.only("prefix_lm", false);
    inner.only("alibi", true);
    inner.only("attn_type", "multihead_attention");
    config.alibi_max = inner.number("alibi_bias_max", 8);
    if (inner.find("softmax_scale") != nullptr) config.attention_scale = inner.number("softmax_scale", 0);
  }
  fields.only("logit_scale", nullptr);
}

}  // namespace pagoda
