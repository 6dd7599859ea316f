// InternLM 2 and 2.5: Llama with each key-value head's queries, key and value together in one matrix.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_internlm2(Hyperparameters& h, ModelInfo& model) {
  read_common(
      h, {.vocab_size = 103168, .intermediate_size = 11008, .norm_eps = 1e-6f, .bos = 1, .eos = 2, .pad = 2},
      model);
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

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.interleaved_rows = true}, model);
}

}  // namespace

PAGODA_FAMILY(internlm2) = {
    .architecture = "internlm2",
    .configs = {{"InternLM2ForCausalLM", "InternLM2Model", "internlm2", read_internlm2}},
    .ggufs = {{"internlm2", read_gguf}},
    .names = names,
    .row = {.name = "InternLM 2, 2.5",
            .differs = "query, key and value in one matrix",
            .checked = "transformers' Llama on the same numbers",
            .size = "7B",
            .config = R"({"model_type":"internlm2","num_key_value_heads":8})"}};

}  // namespace pagoda
