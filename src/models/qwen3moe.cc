// Qwen3-30B-A3B, Qwen3-Coder, ...: Qwen3 with mixtures. Mellum 2 (JetBrains) has windows, too.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = hf_expert_names("mlp", "");
  return names;
}

// Where experts are in one tensor, their matrices are stored [in, out].
WeightNames vl_names(ModelFormat format) {
  WeightNames result = names(format);
  for (ExpertNames& form : result.experts)
    form.transposed = format == ModelFormat::hugging_face && !form.separate();
  return result;
}

}  // namespace

const Architecture kQwen3Moe = {"qwen3moe", qwen3_description, names};
// The text part of the one that sees.
const Architecture kQwen3VlMoe = {"qwen3vlmoe", qwen3_description, vl_names};
const Architecture kMellum = {"mellum", qwen3_description, names};

}  // namespace pagoda
