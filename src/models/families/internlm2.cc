// InternLM 2 and 2.5: Llama with each key-value head's queries, key and value together in one matrix.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_internlm2(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 103168,
               .hidden_size = 4096,
               .intermediate_size = 11008,
               .num_layers = 32,
               .num_heads = 32,
               .max_positions = 2048,
               .norm_eps = 1e-6f,
               .rope_theta = 10000.0f,
               .bos = 1,
               .eos = 2,
               .pad = 2},
              config);
}

WeightNames names(ModelFormat format) {
  if (format == ModelFormat::gguf) return llama_names(format);
  return {.prefix = "model.",
          .other_prefixes = {""},
          .token_embedding = "model.tok_embeddings",
          .final_norm = "model.norm",
          .head = "output",
          .layer = "model.layers.{}.",
          .attention_norm = "attention_norm",
          .mlp_norm = "ffn_norm",
          .attention_output = "attention.wo",
          .fused_qkv = "attention.wqkv",
          .qkv_by_group = true,
          .gate = "feed_forward.w1",
          .up = "feed_forward.w3",
          .down = "feed_forward.w2"};
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.interleaved_rows = true}, config);
}

}  // namespace

PAGODA_FAMILY(internlm2) = {
    .architecture = "internlm2",
    .configs = {{"InternLM2ForCausalLM", "InternLM2Model", "internlm2", read_internlm2}},
    .ggufs = {{"internlm2", read_gguf}},
    .describe = common_description,
    .names = names,
    .row = {.name = "InternLM 2, 2.5",
            .differs = "query, key and value in one matrix",
            .checked = "transformers' Llama on the same numbers",
            .size = "7B",
            .config = R"({"model_type":"internlm2","num_key_value_heads":8})"}};

}  // namespace pagoda
