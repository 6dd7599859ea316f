// Falcon: layer norms, plain GELU MLPs, few key-value heads, parallel attention and feed-forward with one
// norm or a norm each.
#include "models/reading.h"

namespace pagoda::falcon {

void falcon_names(WeightNames& names) {
  bloom_names(names);
  names.embedding_norm = names.mlp_norm = "";
}

void two_norms_names(WeightNames& names) {
  falcon_names(names);
  names.attention_norm = "ln_attn";
  names.mlp_norm = "ln_mlp";
}

void two_norms_gguf_names(WeightNames& names) {
  names.attention_norm = "attn_norm_2";
  names.mlp_norm = "attn_norm";
}

void read_falcon(Hyperparameters& h, ModelInfo& model) {
  read_plain_layers(h, model);
  const bool grouped = h.boolean("new_decoder_architecture", false);
  h.find("num_kv_heads");  // only for models with grouped heads
  const std::int32_t heads = model.decoder.layers.front().attention()->num_heads;
  const std::int32_t kv_heads = grouped                          ? h.integer("num_kv_heads", heads)
                                : h.boolean("multi_query", true) ? 1
                                                                 : heads;
  each_attention(model.decoder, [&](AttentionConfig& attention) { attention.num_kv_heads = kv_heads; });
  const std::int32_t norms = h.integer("num_ln_in_parallel_attn", grouped ? 2 : 1);
  if (grouped && norms == 2) {
    model.own_names = two_norms_names;
    model.own_gguf_names = two_norms_gguf_names;
  }
  set_parallel(model.decoder);
  if (!grouped) h.only("parallel_attn", true);
  h.only("alibi", false);
  read_rope(h, model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  if (h.has_tensor("blk.0.attn_norm_2.weight")) model.own_gguf_names = two_norms_gguf_names;
}

extern const Family family = {
    .configs = {{"FalconForCausalLM", "falcon",
                 R"({"vocab_size":65024,"hidden_size":4544,"num_attention_heads":71,"ffn_hidden_size":null,
                     "bos_token_id":11,"eos_token_id":11,"tie_word_embeddings":true,"layer_norm_epsilon":1e-5,
                     "activation":"gelu"})",
                 read_falcon, Reads::all}},
    .ggufs = {{"falcon", {.activation = "gelu", .layer_norm = true, .parallel = true}, read_gguf}},
    .shape = plain_layer_norm_shape,
    .names = falcon_names,
    .row = {
        .name = "Falcon: 7B, 40B, 180B",
        .differs = "layer norms, parallel attention and feed-forward, few key-value heads. Not RW (ALiBi)",
        .size = "7B"}};

}  // namespace pagoda::falcon
