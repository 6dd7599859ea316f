// Qwen3-30B-A3B, Qwen3-Coder, ...: Qwen3 with mixtures. Mellum 2 (JetBrains) has windows, too.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = hf_expert_names("mlp", "");
  return names;
}

}  // namespace

const Architecture kQwen3Moe = {"qwen3moe", qwen3_description, names};
const Architecture kMellum = {"mellum", qwen3_description, names};

}  // namespace pagoda
