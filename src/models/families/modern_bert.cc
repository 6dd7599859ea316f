// ModernBERT: norms before each half as in Llama, of which the first layer's is the embedding's; windows to
// both sides.
#include <algorithm>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// Norms before each half, a gated feed-forward, windows in two of three layers.
void read_modern_bert(Hyperparameters& h, ModelConfig& config) {
  config.encoder = true;
  config.vocab_size = h.integer("vocab_size", 50368);
  config.hidden_size = h.integer("hidden_size", 768);
  config.intermediate_size = h.integer("intermediate_size", 1152);
  config.num_layers = h.integer("num_hidden_layers", 22);
  config.num_heads = config.num_kv_heads = h.integer("num_attention_heads", 12);
  config.head_size = divide(config.hidden_size, config.num_heads);
  config.max_positions = h.integer("max_position_embeddings", 8192);
  config.norm_eps = h.number("norm_eps", 1e-5f);
  config.activation = h.string("hidden_activation", "gelu");
  config.attention_bias = h.boolean("attention_bias", false);
  config.pad_token_id = 50283;
  config.eos_token_ids = {50282};
  // So many tokens together, half of them on each side.
  config.sliding_window = std::max(h.integer("local_attention", 128), 0) / 2 + 1;
  if (!read_layer_types(h, config)) {
    const std::int32_t period = h.integer("global_attn_every_n_layers", 3);
    if (period < 1) return h.fail("global_attn_every_n_layers", "a positive integer");
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(layer % period != 0);
  }
  finish_windows(h, config);
  read_rope_by_layer(h, config, h.number("global_rope_theta", 160000.0f),
                     h.number("local_rope_theta", 10000.0f));
}

// Norms before each half as in Llama; the first layer reads the embedding's norm.
Result<DecoderConfig> describe_modern_bert(const ModelConfig& config) {
  auto encoder = layer_norm_description(config);
  if (!encoder) return encoder.error();
  encoder->embedding_norm = encoder->final_norm;
  encoder->layers.front().mixer_norms.input = false;
  return encoder;
}

WeightNames modern_bert_names(ModelFormat format) {
  if (format == ModelFormat::gguf) {
    WeightNames names = llama_names(format);
    names.embedding_norm = "token_embd_norm";
    names.rope_factors = "";
    names.fused_qkv = "attn_qkv";
    names.fused_gate_up = "ffn_up";
    return names;
  }
  std::vector<std::string> others;
  for (const char* name : {"head.dense", "head.norm", "classifier", "decoder"})
    for (const char* part : {".weight", ".bias"}) others.push_back(std::string(name) + part);
  return {.prefix = "model.",
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

// The first of so many layers sees everything.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu", .layer_norm = true, .encoder = true}, config);
  config.activation = h.string("hidden_activation", "gelu");
  read_windows_to_both_sides(h, 3, config);
  const GgufArray* const pattern = h.gguf()->array("modern-bert.attention.sliding_window_pattern");
  if (pattern != nullptr && !pattern->booleans.empty()) return;
  const std::int32_t period = std::max(h.integer("attention.sliding_window_pattern", 3), 1);
  for (std::size_t layer = 0; layer < config.window_layers.size(); ++layer)
    config.window_layers[layer] = layer % static_cast<std::size_t>(period) != 0;
  h.without_effect({"classifier.output_labels", "token_type_count"});
}

}  // namespace

PAGODA_FAMILY(modern_bert) = {
    .architecture = "modern-bert",
    .configs = {{"ModernBertForMaskedLM", "ModernBertModel", "modernbert", read_modern_bert}},
    .ggufs = {{"modern-bert", read_gguf}},
    .describe = describe_modern_bert,
    .names = modern_bert_names,
    .row = {.name = "ModernBERT: gte-modernbert, granite-embedding-r2",
            .differs = "norms before each half, two rotations, windows to both sides",
            .checked = "transformers",
            .vectors = true}};

}  // namespace pagoda
