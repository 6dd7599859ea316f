// Mixtral: Mistral with mixtures. As GGUF it comes as "llama", which has them too.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format != ModelFormat::gguf) names.experts = mixtral_experts();
  return names;
}

}  // namespace

std::vector<ExpertNames> mixtral_experts() {
  std::vector<ExpertNames> forms = hf_expert_names("mlp", "");
  const ExpertNames old = {.router = "block_sparse_moe.gate",
                           .gate = "block_sparse_moe.experts.{}.w1",
                           .up = "block_sparse_moe.experts.{}.w3",
                           .down = "block_sparse_moe.experts.{}.w2"};
  forms.insert(forms.begin(), old);
  return forms;
}

const Architecture kMixtral = {"mixtral", common_description, names};

}  // namespace pagoda
