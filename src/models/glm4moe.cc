// GLM-4.5 and its successors: Llama with mixtures behind dense layers, heads of which a part rotates, and in
// some models norms of every query and key head.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  return config.query_key_norm ? qwen3_description(config) : common_description(config);
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face)
    names.experts = hf_expert_names("mlp", "shared_experts");
  else
    names.mlp_norm = "post_attention_norm";
  return names;
}

}  // namespace

const Architecture kGlm4Moe = {"glm4moe", describe, names};

}  // namespace pagoda
