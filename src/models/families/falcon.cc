// Falcon: layer norms, plain MLPs of GELU, few key-value heads, halves that see the same, through one norm or
// a norm each.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

WeightNames falcon_names(ModelFormat format) {
  if (format == ModelFormat::gguf) {
    WeightNames names = fused_gguf_names();
    names.mlp_norm = "";
    return names;
  }
  return {.prefix = "transformer.",
          .other_prefixes = {""},
          .token_embedding = "transformer.word_embeddings",
          .final_norm = "transformer.ln_f",
          .head = "lm_head",
          .layer = "transformer.h.{}.",
          .attention_norm = "input_layernorm",
          .attention_output = "self_attention.dense",
          .fused_qkv = "self_attention.query_key_value",
          .qkv_by_group = true,
          .up = "mlp.dense_h_to_4h",
          .down = "mlp.dense_4h_to_h"};
}

WeightNames two_norms_names(ModelFormat format) {
  WeightNames names = falcon_names(format);
  const bool gguf = format == ModelFormat::gguf;
  names.attention_norm = gguf ? "attn_norm_2" : "ln_attn";
  names.mlp_norm = gguf ? "attn_norm" : "ln_mlp";
  return names;
}

// Falcon 7B and 40B: both halves see the same, through one norm or a norm each.
void read_falcon(Hyperparameters& h, ModelConfig& config) {
  read_heads(h, config, "hidden_size", "num_hidden_layers", "num_attention_heads",
             {.vocab_size = 65024,
              .hidden_size = 4544,
              .num_layers = 32,
              .num_heads = 71,
              .max_positions = 2048,
              .norm_eps = 1e-5f,
              .rope_theta = 10000.0f,
              .bos = 11,
              .eos = 11,
              .tied = true});
  const bool grouped = h.boolean("new_decoder_architecture", false);
  h.find("num_kv_heads");  // models with grouped heads
  if (grouped)
    config.num_kv_heads = h.integer("num_kv_heads", config.num_heads);
  else if (h.boolean("multi_query", true))
    config.num_kv_heads = 1;
  const std::int32_t norms = h.integer("num_ln_in_parallel_attn", grouped ? 2 : 1);
  if (grouped && norms == 2) config.names = two_norms_names;
  config.intermediate_size = h.integer("ffn_hidden_size", times(4, config.hidden_size));
  config.max_positions = h.integer("max_position_embeddings", 2048);
  config.activation = h.string("activation", "gelu");
  config.parallel = true;
  if (!grouped) h.only("parallel_attn", true);
  h.only("alibi", false);
  read_rope(h, config);
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu", .layer_norm = true, .parallel = true}, config);
  if (h.has_tensor("blk.0.attn_norm_2.weight")) config.names = two_norms_names;
}

}  // namespace

PAGODA_FAMILY(falcon) = {
    .architecture = "falcon",
    .configs = {{"FalconForCausalLM", "FalconModel", "falcon", read_falcon}},
    .ggufs = {{"falcon", read_gguf}},
    .describe = plain_layer_norm_description,
    .names = falcon_names,
    .row = {.name = "Falcon: 7B, 40B, 180B",
            .differs = "layer norms, both halves see the same, few key-value heads. Not RW (ALiBi)",
            .checked = "transformers",
            .size = "7B",
            .config = R"({"model_type":"falcon"})"}};

}  // namespace pagoda
