// Granite with mixtures, in which gate and up of all experts are one tensor.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = granitemoe_experts();
  return names;
}

}  // namespace

std::vector<ExpertNames> granitemoe_experts() {
  return {{.router = "block_sparse_moe.router.layer",
           .down = "block_sparse_moe.output_linear",
           .gate_up = "block_sparse_moe.input_linear",
           .shared_down = "shared_mlp.output_linear",
           .shared_gate_up = "shared_mlp.input_linear"}};
}

const Architecture kGraniteMoe = {"granitemoe", common_description, names};

}  // namespace pagoda
