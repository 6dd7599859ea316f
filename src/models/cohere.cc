// Command (Cohere): layer norms without biases, one for both halves, which see the same; adjacent pairs;
// scaled logits. Command 2 has windows in three of four layers, which alone rotate; with mixtures it may have RMS norms.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames moe_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = hf_expert_names("mlp", "shared_experts");
  return names;
}

}  // namespace

const Architecture kCohere = {"cohere", each_head_description, llama_names};
const Architecture kCommandR = {"command-r", each_head_description, llama_names};  // as GGUF calls it
const Architecture kCohere2 = {"cohere2", layer_norm_description, llama_names};
const Architecture kCohere2Moe = {"cohere2moe", layer_norm_description, moe_names};
const Architecture kCohere2MoeRms = {"cohere2moe rms", common_description, moe_names};

}  // namespace pagoda
