// MPT: layer norms, plain MLPs of GELU, and scores that fall with the distance (ALiBi) instead of positions.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_mpt(Hyperparameters& h, ModelConfig& config) {
  read_heads(h, config, "d_model", "n_layers", "n_heads",
             {.vocab_size = 50368,
              .hidden_size = 2048,
              .num_layers = 24,
              .num_heads = 16,
              .max_positions = 2048,
              .norm_eps = 1e-5f,
              .rope_theta = 10000.0f,
              .tied = true});
  config.intermediate_size = times(h.integer("expansion_ratio", 4), config.hidden_size);
  config.max_positions = h.integer("max_seq_len", 2048);
  config.activation = "gelu";
  config.alibi_max = 8;
  config.rotates = false;
  h.only("no_bias", true);
  h.only("learned_pos_emb", true);
  h.only("norm_type", "low_precision_layernorm");
  if (const json::object* attention = h.object("attn_config")) {
    Hyperparameters inner(*attention, h.shared_status());
    config.attention_clip = inner.number("clip_qkv", 0);
    inner.only("qk_ln", false);
    inner.only("prefix_lm", false);
    inner.only("alibi", true);
    inner.only("attn_type", "multihead_attention");
    config.alibi_max = inner.number("alibi_bias_max", 8);
    if (inner.find("softmax_scale") != nullptr) config.attention_scale = inner.number("softmax_scale", 0);
  }
  h.only("logit_scale", nullptr);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = alibi_description(config, AlibiOrder::higher_first);
  return decoder;
}

WeightNames mpt_names(ModelFormat format) {
  if (format == ModelFormat::gguf) return plain_fused_gguf_names();
  return {.prefix = "transformer.",
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

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu", .layer_norm = true, .rotates = false}, config);
  config.attention_clip = h.number("clip_qkv", 0.0f);
  config.alibi_max = h.number("attention.max_alibi_bias", 8.0f);
}

}  // namespace

PAGODA_FAMILY(mpt) = {.architecture = "mpt",
                      .configs = {{"MptForCausalLM", "MptModel", "mpt", read_mpt}},
                      .ggufs = {{"mpt", read_gguf}},
                      .describe = describe,
                      .names = mpt_names,
                      .row = {.name = "MPT 7B, 30B",
                              .differs = "layer norms, ALiBi",
                              .checked = "transformers",
                              .size = "MPT 7B",
                              .config = R"({"model_type":"mpt","d_model":4096,"n_layers":32,"n_heads":32})"}};

}  // namespace pagoda
