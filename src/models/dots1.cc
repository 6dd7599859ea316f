// dots.llm1: Qwen3 with mixtures behind dense layers, and shared experts.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = hf_expert_names("mlp", "shared_experts");
  return names;
}

}  // namespace

const Architecture kDots1 = {"dots1", qwen3_description, names};

}  // namespace pagoda
