// Hunyuan with mixtures and a shared expert.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = hunyuan_names(format);
  if (format == ModelFormat::gguf) return names;
  names.experts = hf_expert_names("mlp", "shared_mlp");
  for (ExpertNames& each : names.experts) each.router = "mlp.gate.wg";
  return names;
}

}  // namespace

const Architecture kHunyuanMoe = {"hunyuan-moe", hunyuan_description, names};

}  // namespace pagoda
