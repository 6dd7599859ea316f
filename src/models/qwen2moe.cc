// Qwen1.5-MoE and Qwen2-57B-A14B: Qwen2 with mixtures, and an expert for all tokens that each takes a share
// of.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = hf_expert_names("mlp", "shared_expert");
  return names;
}

}  // namespace

const Architecture kQwen2Moe = {"qwen2moe", common_description, names};

}  // namespace pagoda
