// MiniMax-M2: Llama with mixtures, norms of all query heads and of all key heads, and heads of which a part
// rotates.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  const std::string_view correction = "block_sparse_moe.e_score_correction_bias";
  ExpertNames stored = {.router = "block_sparse_moe.gate",
                        .correction = std::string(correction),
                        .gate = "block_sparse_moe.experts.{}.w1",
                        .up = "block_sparse_moe.experts.{}.w3",
                        .down = "block_sparse_moe.experts.{}.w2"};
  names.experts = hf_expert_names("mlp", "");
  for (ExpertNames& each : names.experts) each.correction = "mlp.e_score_correction_bias";
  names.experts.insert(names.experts.begin(), stored);
  return names;
}

}  // namespace

const Architecture kMiniMaxM2 = {"minimax-m2", olmoe_description, names};

}  // namespace pagoda
