// GPT-NeoX and Pythia: layer norms, plain GELU MLPs, parallel attention and feed-forward.
#include "models/reading.h"

namespace pagoda::gpt_neox {

void read_gpt_neox(Hyperparameters& h, ModelInfo& model) {
  read_layers(h, model);
  read_rope(h, model, h.number("rotary_emb_base", 10000.0f), h.number("rotary_pct", 0.25f));
  if (h.boolean("use_parallel_residual", true)) set_parallel(model.decoder);
}

void neox_names(WeightNames& names) {
  bloom_names(names);
  names.embedding_norm = "";
  names.prefix = "gpt_neox.";
  names.token_embedding = "gpt_neox.embed_in";
  names.final_norm = "gpt_neox.final_layer_norm";
  names.head = "embed_out";
  names.other_head = "lm_head";
  names.layer = "gpt_neox.layers.{}.";
  names.attention_output = "attention.dense";
  names.fused_qkv = "attention.query_key_value";
}

extern const Family family = {
    .configs = {{"GPTNeoXForCausalLM", "gpt_neox",
                 R"({"vocab_size":50432,"hidden_size":6144,"intermediate_size":24576,"num_hidden_layers":44,
                     "num_attention_heads":64,"bos_token_id":0,"eos_token_id":2,"layer_norm_eps":1e-5,
                     "hidden_act":"gelu"})",
                 read_gpt_neox, Reads::all}},
    .ggufs = {{"gptneox", {.activation = "gelu", .layer_norm = true, .may_be_parallel = true}}},
    .shape = plain_layer_norm_shape,
    .names = neox_names,
    .row = {
        .name = "GPT-NeoX, Pythia",
        .differs = "layer norms, parallel attention and feed-forward, biases, RoPE on a quarter of each head",
        .size = "Pythia 6.9B",
        .config = R"({"model_type":"gpt_neox","hidden_size":4096,"num_hidden_layers":32,
                          "num_attention_heads":32})"}};

}  // namespace pagoda::gpt_neox
