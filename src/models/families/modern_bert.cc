// ModernBERT: norms before each sublayer as in Llama, the first of which is the embedding's; bidirectional
// windows.
#include <algorithm>

#include "models/reading.h"

namespace pagoda::modern_bert {

void read_modern_bert(Hyperparameters& h, ModelInfo& model) {
  read_layers(h, model);
  model.decoder.tied_head = false;
  model.bos_token_id = -1;
  see_both_sides(model.decoder);
  const std::int32_t period = h.integer("global_attn_every_n_layers", 3);
  if (period < 1) return h.fail("global_attn_every_n_layers", "a positive integer");
  // The total window, half of it on each side.
  use_windows(h, std::max(h.integer("local_attention", 128), 0) / 2 + 1,
              read_window_layers_or(h, model, [&](std::int32_t layer) { return layer % period != 0; }),
              model);
  read_rope_by_layer(h, model, h.number("global_rope_theta", 160000.0f),
                     h.number("local_rope_theta", 10000.0f));
}

void shape(DecoderConfig& decoder) {
  layer_norms(decoder);
  decoder.embedding_norm = decoder.final_norm;
  decoder.layers.front().mixer_norms.input = false;
}

void modern_bert_names(WeightNames& names) {
  std::vector<std::string> others;
  for (const char* name : {"head.dense", "head.norm", "classifier", "decoder"})
    for (const char* part : {".weight", ".bias"}) others.push_back(std::string(name) + part);
  names = {.prefix = "model.",
           .other_prefixes = {""},
           .token_embedding = "model.embeddings.tok_embeddings",
           .embedding_norm = "model.embeddings.norm",
           .final_norm = "model.final_norm",
           .of_other_heads = std::move(others),
           .layer = "model.layers.{}.",
           .attention_norm = "attn_norm",
           .mlp_norm = "mlp_norm",
           .attention_output = "attn.Wo",
           .fused_qkv = "attn.Wqkv",
           .down = "mlp.Wo",
           .fused_gate_up = "mlp.Wi"};
}

// The first layer of each period has full attention.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  const std::string activation = h.string("hidden_activation", "gelu");
  read_gguf_common(h, {.activation = activation, .layer_norm = true, .encoder = true}, model);
  read_windows_to_both_sides(h, 3, model, SeesAll::first);
  h.without_effect("classifier.output_labels token_type_count");
}

extern const Family family = {
    .configs = {{"ModernBertForMaskedLM", "modernbert",
                 R"({"vocab_size":50368,"hidden_size":768,"intermediate_size":1152,"num_hidden_layers":22,
                     "num_attention_heads":12,"max_position_embeddings":8192,"eos_token_id":50282,
                     "pad_token_id":50283,"norm_eps":1e-5,"hidden_activation":"gelu"})",
                 read_modern_bert, Reads::all}},
    .ggufs = {{"modern-bert", {}, read_gguf, Reads::all}},
    .shape = shape,
    .names = modern_bert_names,
    .row = {.name = "ModernBERT: gte-modernbert, granite-embedding-r2",
            .differs = "norms before each sublayer, two RoPE bases, bidirectional windows",
            .vectors = true}};

}  // namespace pagoda::modern_bert
