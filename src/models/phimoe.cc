// Phi-3.5-MoE: Llama with layer norms, biases, and mixtures whose router chooses one expert after the other.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.experts = mixtral_experts();
  for (ExpertNames& form : names.experts)
    if (form.router == "mlp.gate") form.router = "mlp.router";
  return names;
}

}  // namespace

const Architecture kPhiMoe = {"phimoe", layer_norm_description, names};

}  // namespace pagoda
