// EXAONE 4: Llama with norms behind each half and of every query and key head; where some layers have
// windows, the others do not rotate.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  return norms_behind_description(config, QueryKeyNorm::per_head);
}

}  // namespace

const Architecture kExaone4 = {"exaone4", describe, olmo2_names};

}  // namespace pagoda
