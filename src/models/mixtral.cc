// Mixtral: Mistral with mixtures. As GGUF it comes as "llama", which has them too.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  const ExpertNames old = {.router = "block_sparse_moe.gate",
                           .gate = "block_sparse_moe.experts.{}.w1",
                           .up = "block_sparse_moe.experts.{}.w3",
                           .down = "block_sparse_moe.experts.{}.w2"};
  names.experts = hf_expert_names("mlp", "");
  names.experts.insert(names.experts.begin(), old);
  return names;
}

}  // namespace

const Architecture kMixtral = {"mixtral", common_description, names};

}  // namespace pagoda
