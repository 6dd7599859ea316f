// Granite: Llama with scales of the embedding, of what each half adds, of the scores and of the logits.
// MiniCPM 1, 2 and 4 have all but the scores'.
#include "models/architecture.h"

namespace pagoda {
namespace {

WeightNames minicpm_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format != ModelFormat::gguf) return names;
  names.rope_factors_short = "rope_factors_short.weight";
  names.rope_factors_long = "rope_factors_long.weight";
  return names;
}

}  // namespace

const Architecture kGranite = {"granite", common_description, llama_names};
const Architecture kMiniCpm = {"minicpm", common_description, minicpm_names};

}  // namespace pagoda
