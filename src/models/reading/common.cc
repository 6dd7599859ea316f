// Fields that most families have under the same names.
#include <algorithm>
#include <limits>

#include "models/reading.h"

namespace pagoda {
void read_common(Hyperparameters& h, const Defaults& absent, ModelConfig& config) {
  config.vocab_size = h.integer("vocab_size", absent.vocab_size);
  config.hidden_size = h.integer("hidden_size", absent.hidden_size);
  config.intermediate_size = h.integer("intermediate_size", absent.intermediate_size);
  config.num_layers = h.integer("num_hidden_layers", absent.num_layers);
  config.num_heads = h.integer("num_attention_heads", absent.num_heads);
  const bool given = h.written("num_key_value_heads") || absent.num_kv_heads == 0;
  config.num_kv_heads = h.integer("num_key_value_heads", given ? config.num_heads : absent.num_kv_heads);
  const bool fixed_head = absent.head_size > 0 && !h.written("head_dim");
  config.head_size =
      h.integer("head_dim", fixed_head ? absent.head_size : divide(config.hidden_size, config.num_heads));
  config.max_positions = h.integer("max_position_embeddings", absent.max_positions);
  config.norm_eps = h.number(absent.eps_name, absent.norm_eps);
  config.activation = h.string("hidden_act", absent.activation);
  config.tie_embeddings = h.boolean("tie_word_embeddings", absent.tied);
  config.attention_bias = h.boolean("attention_bias", false);
  config.bos_token_id = h.written("bos_token_id") ? h.integer("bos_token_id", -1) : absent.bos;
  config.pad_token_id = absent.pad;
  if (absent.eos >= 0) config.eos_token_ids = {absent.eos};
  if (absent.local_theta > 0)
    read_rope_by_layer(h, config, absent.rope_theta, h.number("rope_theta", absent.local_theta),
                       absent.partial);
  else
    read_rope(h, config, absent.rope_theta, absent.partial);
}

void read_granite_scales(Hyperparameters& h, ModelConfig& config) {
  config.embedding_scale = h.number("embedding_multiplier", 1.0f);
  config.residual_scale = h.number("residual_multiplier", 1.0f);
  config.attention_scale = h.number("attention_multiplier", h.gguf() != nullptr ? 0.0f : 1.0f);
  config.logit_scale = 1 / h.number("logits_scaling", 1.0f);
}

void read_granite(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 32000,
               .hidden_size = 4096,
               .intermediate_size = 11008,
               .num_layers = 32,
               .num_heads = 32,
               .max_positions = 2048,
               .norm_eps = 1e-6f,
               .rope_theta = 10000.0f,
               .bos = 1,
               .eos = 2},
              config);
  read_granite_scales(h, config);
}

void read_granite_moe(Hyperparameters& h, ModelConfig& config) {
  read_granite(h, config);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 8);
  experts.per_token = h.integer("num_experts_per_tok", 2);
  experts.intermediate_size = config.intermediate_size;
  experts.shared_intermediate_size = h.integer("shared_intermediate_size", 0);
  experts.score = ExpertScore::softmax_of_chosen;
}

void read_olmo2(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 50304,
               .hidden_size = 4096,
               .intermediate_size = 11008,
               .num_layers = 32,
               .num_heads = 32,
               .max_positions = 2048,
               .norm_eps = 1e-5f,
               .rope_theta = 10000.0f,
               .eos = 50279,
               .pad = 1},
              config);
}

void read_hunyuan(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 290943,
               .hidden_size = 4096,
               .intermediate_size = 11008,
               .num_layers = 32,
               .num_heads = 32,
               .max_positions = 2048,
               .norm_eps = 1e-5f,
               .rope_theta = 10000.0f,
               .bos = 1,
               .eos = 2,
               .pad = 0},
              config);
}

// GLM-4 9B and, with norms on both sides of each half, GLM-4-0414.
void read_glm(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 151552,
               .hidden_size = 4096,
               .intermediate_size = 13696,
               .num_layers = 40,
               .num_heads = 32,
               .num_kv_heads = 2,
               .max_positions = 131072,
               .norm_eps = 1.5625e-07f,
               .rope_theta = 10000.0f,
               .pad = 151329,
               .head_size = 128,
               .partial = 0.5f},
              config);
  config.rope_interleaved_rows = true;
  config.eos_token_ids = {151329, 151336, 151338};
}

// Fields that all of them have.
void read_cohere_like(Hyperparameters& h, Defaults absent, ModelConfig& config) {
  absent.eps_name = "layer_norm_eps";
  read_common(h, absent, config);
  config.logit_scale = h.number("logit_scale", 0.0625f);
  config.rope_interleaved_rows = config.parallel = true;
}

void read_query_key_norm(Hyperparameters& h, ModelConfig& config) {
  config.query_key_norm = h.has_tensor("blk.0.attn_q_norm.weight");
}

void read_bert_like(Hyperparameters& h, ModelConfig& config, std::int32_t vocab_size, std::int32_t pad) {
  config.encoder = true;
  config.rotates = false;  // or by a field of its own
  config.vocab_size = h.integer("vocab_size", vocab_size);
  config.hidden_size = h.integer("hidden_size", 768);
  config.intermediate_size = h.integer("intermediate_size", 3072);
  config.num_layers = h.integer("num_hidden_layers", 12);
  config.num_heads = config.num_kv_heads = h.integer("num_attention_heads", 12);
  config.head_size = divide(config.hidden_size, config.num_heads);
  config.max_positions = h.integer("max_position_embeddings", 512);
  config.token_types = std::max(h.integer("type_vocab_size", 2), 0);
  config.norm_eps = h.number("layer_norm_eps", 1e-12f);
  config.activation = h.string("hidden_act", "gelu");
  config.attention_bias = true;
  config.pad_token_id = h.written("pad_token_id") ? h.integer("pad_token_id", -1) : pad;
  h.only("is_decoder", false);
  h.only("add_cross_attention", false);
  if (h.string("position_embedding_type", "absolute") != "absolute")
    h.refuse("config.json: 'position_embedding_type' can only be 'absolute'");
}

// The file has one row for each type of token.
void read_token_types(Hyperparameters& h, ModelConfig& config) {
  for (const GgufTensor& tensor : h.gguf()->tensor_list())
    if (tensor.name == "token_types.weight" && tensor.shape.size() == 2)
      config.token_types =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(tensor.shape.front(), 0, 1 << 16));
}

std::int32_t times(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(std::int64_t{a} * b, std::numeric_limits<std::int32_t>::max()));
}

// Under the names of GPT-2.
void read_heads(Hyperparameters& h, ModelConfig& config, std::string_view hidden, std::string_view layers,
                std::string_view heads, const Defaults& absent) {
  config.vocab_size = h.integer("vocab_size", absent.vocab_size);
  config.hidden_size = h.integer(hidden, absent.hidden_size);
  config.num_layers = h.integer(layers, absent.num_layers);
  config.num_heads = config.num_kv_heads = h.integer(heads, absent.num_heads);
  config.head_size = divide(config.hidden_size, config.num_heads);
  config.norm_eps = h.number("layer_norm_epsilon", absent.norm_eps);
  config.tie_embeddings = h.boolean("tie_word_embeddings", absent.tied);
  config.bos_token_id = h.written("bos_token_id") ? h.integer("bos_token_id", -1) : absent.bos;
  if (absent.eos >= 0 && !h.written("eos_token_id")) config.eos_token_ids = {absent.eos};
}

}  // namespace pagoda
