// Seed-OSS: Llama with biases of queries, keys and values.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) names.mlp_norm = "post_attention_norm";
  return names;
}

}  // namespace

const Architecture kSeedOss = {"seed_oss", common_description, names};

}  // namespace pagoda
