// MPT: layer norms, plain GELU MLPs, and ALiBi instead of positions.
#include "models/reading.h"

namespace pagoda::mpt {

void read_mpt(Hyperparameters& h, ModelInfo& model) {
  read_plain_layers(h, model);
  set_intermediate_size(times(h.integer("expansion_ratio", 4), model.decoder.hidden_size), model);
  float largest = 8;
  h.only("no_bias", true);
  h.only("learned_pos_emb", true);
  h.only("norm_type", "low_precision_layernorm");
  if (const json::object* attention = h.object("attn_config")) {
    Hyperparameters inner(*attention, h.shared_status());
    clip_attention(inner.number("clip_qkv", 0), model.decoder);
    inner.only("qk_ln", false);
    inner.only("prefix_lm", false);
    inner.only("alibi", true);
    inner.only("attn_type", "multihead_attention");
    largest = inner.number("alibi_bias_max", 8);
    if (const float scale = inner.number("softmax_scale", 0); scale != 0)
      scale_attention(scale, model.decoder);
  }
  h.only("logit_scale", nullptr);
  use_alibi(h, largest, AlibiOrder::higher_first, model.decoder);
}

void mpt_names(WeightNames& names) {
  names = {.prefix = "transformer.",
           .other_prefixes = {""},
           .token_embedding = "transformer.wte",
           .final_norm = "transformer.norm_f",
           .head = "lm_head",
           .layer = "transformer.blocks.{}.",
           .attention_norm = "norm_1",
           .mlp_norm = "norm_2",
           .attention_output = "attn.out_proj",
           .fused_qkv = "attn.Wqkv",
           .up = "ffn.up_proj",
           .down = "ffn.down_proj"};
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  clip_attention(h.number("clip_qkv", 0.0f), model.decoder);
  use_alibi(h, h.number("attention.max_alibi_bias", 8.0f), AlibiOrder::higher_first, model.decoder);
}

extern const Family family = {
    .configs = {{"MptForCausalLM", "mpt",
                 R"({"vocab_size":50368,"d_model":2048,"n_layers":24,"n_heads":16,"max_seq_len":2048,
                     "tie_word_embeddings":true,"layer_norm_epsilon":1e-5,"hidden_act":"gelu"})",
                 read_mpt, Reads::all}},
    .ggufs = {{"mpt", {.activation = "gelu", .layer_norm = true, .rotates = false}, read_gguf}},
    .shape = plain_layer_norm_shape,
    .names = mpt_names,
    .row = {.name = "MPT 7B, 30B",
            .differs = "layer norms, ALiBi",
            .size = "MPT 7B",
            .config = R"({"model_type":"mpt","d_model":4096,"n_layers":32,"n_heads":32})"}};

}  // namespace pagoda::mpt
