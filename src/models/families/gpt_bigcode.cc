// GPT-BigCode (StarCoder 1, SantaCoder): GPT-2 whose heads share one key and one value.
#include <algorithm>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelConfig& config) {
  read_heads(h, config, "n_embd", "n_layer", "n_head",
             {.vocab_size = 50257,
              .hidden_size = 768,
              .num_layers = 12,
              .num_heads = 12,
              .bos = 50256,
              .eos = 50256,
              .tied = true});
  const std::int32_t inner = h.integer("n_inner", 0);
  config.intermediate_size = inner != 0 ? inner : times(4, config.hidden_size);
  config.max_positions = h.integer("n_positions", 1024);
  config.activation = h.string("activation_function", "gelu_pytorch_tanh");
  config.attention_bias = true;
  config.num_kv_heads = 1;
  config.rotates = false;
  h.only("multi_query", true);
  h.only("scale_attn_weights", true);
  h.only("add_cross_attention", false);
  h.without_effect({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner",
                    "validate_runner_input", "pre_allocate_kv_cache", "max_batch_size", "max_sequence_length",
                    "pad_key_length"});
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu_new", .layer_norm = true, .rotates = false}, config);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = plain_layer_norm_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.attention()->rope = kNoRope;
  decoder->ropes.clear();
  decoder->learned_positions = true;
  return decoder;
}

WeightNames names(ModelFormat format) {
  if (format == ModelFormat::gguf) {
    WeightNames names = fused_gguf_names();
    names.position_embedding = "position_embd";
    names.rope_factors = "";
    return names;
  }
  return {.prefix = "transformer.",
          .other_prefixes = {""},
          .token_embedding = "transformer.wte",
          .position_embedding = "transformer.wpe",
          .final_norm = "transformer.ln_f",
          .head = "lm_head",
          .layer = "transformer.h.{}.",
          .attention_norm = "ln_1",
          .mlp_norm = "ln_2",
          .attention_output = "attn.c_proj",
          .fused_qkv = "attn.c_attn",
          .up = "mlp.c_fc",
          .down = "mlp.c_proj"};
}

}  // namespace

PAGODA_FAMILY(gpt_bigcode) = {
    .architecture = "starcoder",
    .configs = {{"GPTBigCodeForCausalLM", "GPTBigCodeModel", "gpt_bigcode", read}},
    .ggufs = {{"starcoder", read_gguf}},
    .describe = describe,
    .names = names,
    .row = {.name = "GPT-BigCode: StarCoder 1, StarCoderBase, SantaCoder",
            .differs = "layer norm, learned positions, one key-value head",
            .checked = "transformers",
            .size = "15B",
            .config =
                R"({"model_type":"gpt_bigcode","n_embd":6144,"n_layer":40,"n_head":48,"n_positions":8192})"}};

}  // namespace pagoda
