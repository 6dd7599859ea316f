// InternLM 2 and 2.5: Llama with each key-value head's queries, key and value together in one matrix.
#include "models/architecture.h"

namespace pagoda {
namespace {

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

}  // namespace

const Architecture kInternLm2 = {"internlm2", common_description, names};

}  // namespace pagoda
