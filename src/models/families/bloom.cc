// BLOOM: layer norms, a norm of the embedding, plain MLPs of GELU, and scores that fall with the distance
// (ALiBi) instead of positions.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_bloom(Hyperparameters& h, ModelConfig& config) {
  const std::string_view hidden = h.find("n_embed") != nullptr ? "n_embed" : "hidden_size";
  const std::string_view layers = h.find("num_hidden_layers") != nullptr ? "num_hidden_layers" : "n_layer";
  const std::string_view heads = h.find("num_attention_heads") != nullptr ? "num_attention_heads" : "n_head";
  read_heads(h, config, hidden, layers, heads,
             {.vocab_size = 250880,
              .hidden_size = 64,
              .num_layers = 2,
              .num_heads = 8,
              .norm_eps = 1e-5f,
              .rope_theta = 0,
              .bos = 1,
              .eos = 2,
              .tied = true});
  config.intermediate_size = times(4, config.hidden_size);
  config.max_positions = h.integer("seq_length", 2048);  // ALiBi has no limit of its own
  config.activation = "gelu_new";
  config.alibi_max = 8;
  config.rotates = false;
  h.only("apply_residual_connection_post_layernorm", false);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = alibi_description(config, AlibiOrder::lower_first);
  if (decoder) decoder->embedding_norm = decoder->final_norm;
  return decoder;
}

WeightNames bloom_names(ModelFormat format) {
  if (format == ModelFormat::gguf) return plain_fused_gguf_names();
  return {.prefix = "transformer.",
          .other_prefixes = {""},
          .token_embedding = "transformer.word_embeddings",
          .embedding_norm = "transformer.word_embeddings_layernorm",
          .final_norm = "transformer.ln_f",
          .head = "lm_head",
          .layer = "transformer.h.{}.",
          .attention_norm = "input_layernorm",
          .mlp_norm = "post_attention_layernorm",
          .attention_output = "self_attention.dense",
          .fused_qkv = "self_attention.query_key_value",
          .qkv_by_group = true,
          .up = "mlp.dense_h_to_4h",
          .down = "mlp.dense_4h_to_h"};
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(
      h, {.activation = "gelu_new", .layer_norm = true, .rotates = false, .context_instead_of_width = 2048},
      config);
  config.attention_clip = h.number("clip_qkv", 0.0f);
  config.alibi_max = h.number("attention.max_alibi_bias", 8.0f);
}

}  // namespace

PAGODA_FAMILY(bloom) = {
    .architecture = "bloom",
    .configs = {{"BloomForCausalLM", "BloomModel", "bloom", read_bloom}},
    .ggufs = {{"bloom", read_gguf}},
    .describe = describe,
    .names = bloom_names,
    .row = {.name = "BLOOM 560M to 176B",
            .differs = "layer norms, ALiBi",
            .checked = "transformers",
            .size = "7B",
            .config = R"({"model_type":"bloom","hidden_size":4096,"n_layer":30,"num_attention_heads":32})"}};

}  // namespace pagoda
