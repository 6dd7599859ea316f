// ERNIE 4.5 with mixtures, behind a dense layer.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.experts = hf_expert_names("mlp", "shared_experts");
  for (ExpertNames& each : names.experts) each.correction = "mlp.moe_statics.e_score_correction_bias";
  return names;
}

}  // namespace

const Architecture kErnie45Moe = {"ernie4_5-moe", common_description, names};

}  // namespace pagoda
