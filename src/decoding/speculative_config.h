#pragma once
// SpeculativeConfig: the source and number of draft tokens. Names are those of --speculative-config. Plain
// data.
#include <cstdint>
#include <string>

#include "base/status.h"

namespace pagoda {

enum class DraftMethod : std::uint8_t {
  ngram,        // the sequence's own text (ngram_proposer.h)
  draft_model,  // a smaller model (engine/model_proposer.h)
};

struct SpeculativeConfig {
  DraftMethod method = DraftMethod::ngram;
  std::int32_t num_speculative_tokens = 0;  // maximum number of drafts in one step
  // For ngram: the maximum and minimum number of tokens to match.
  std::int32_t prompt_lookup_max = 0;
  std::int32_t prompt_lookup_min = 0;
  // No drafts if at least this many sequences decode; 0: no limit.
  std::int32_t disable_by_batch_size = 0;
  std::string model = {};  // for draft_model: PATH or ORG/NAME
};

// invalid_argument, naming the field.
Status validate(const SpeculativeConfig& config);

}  // namespace pagoda
