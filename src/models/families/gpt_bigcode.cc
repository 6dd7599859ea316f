// GPT-BigCode (StarCoder 1, SantaCoder): GPT-2 whose heads share one key and one value.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelInfo& model) {
  read_sizes(h, kGpt2Sizes,
             {.vocab_size = 50257,
              .hidden_size = 768,
              .num_layers = 12,
              .num_heads = 12,
              .max_positions = 1024,
              .bos = 50256,
              .eos = 50256,
              .tied = true,
              .eps_name = "layer_norm_epsilon",
              .activation = "gelu_pytorch_tanh"},
             model);
  each_attention(model.decoder, [](AttentionConfig& attention) { attention.num_kv_heads = 1; });
  h.only("multi_query", true);
  h.only("scale_attn_weights", true);
  h.only("add_cross_attention", false);
  h.without_effect({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner",
                    "validate_runner_input", "pre_allocate_kv_cache", "max_batch_size", "max_sequence_length",
                    "pad_key_length"});
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.activation = "gelu_new", .layer_norm = true, .rotates = false}, model);
}

WeightNames names(ModelFormat format) {
  WeightNames names = gpt2_names(format);
  names.transposed = false;
  return names;
}

}  // namespace

PAGODA_FAMILY(gpt_bigcode) = {
    .architecture = "starcoder",
    .configs = {{"GPTBigCodeForCausalLM", "GPTBigCodeModel", "gpt_bigcode", read}},
    .ggufs = {{"starcoder", read_gguf}},
    .shape = gpt2_shape,
    .names = names,
    .row = {.name = "GPT-BigCode: StarCoder 1, StarCoderBase, SantaCoder",
            .differs = "layer norm, learned positions, one key-value head",
            .checked = "transformers",
            .size = "15B",
            .config =
                R"({"model_type":"gpt_bigcode","n_embd":6144,"n_layer":40,"n_head":48,"n_positions":8192})"}};

}  // namespace pagoda
