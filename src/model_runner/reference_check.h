#pragma once
// Compares the engine with the slow reference on the user's own model: the same tokens through Backend::cpu
// in the chosen type and through Backend::reference in float32. For `pagoda doctor`.
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "loader/model_source.h"
#include "model_runner/local_model_runner.h"

namespace pagoda {

struct ReferenceComparison {
  double max_logprob_difference = 0;  // over all scored tokens
  double engine_mean_nll = 0, reference_mean_nll = 0;
  std::int32_t num_scored = 0;

  double nll_difference() const { return engine_mean_nll - reference_mean_nll; }
};

// Runs `tokens` (at least 2) as one prompt; sets the block counts and token limits of `options` itself. The
// reference holds weights as float32 and is slow: 10 to 50 tokens are enough.
Result<ReferenceComparison> compare_with_reference(const std::shared_ptr<const ModelSource>& source,
                                                   RunnerOptions options, std::span<const TokenId> tokens);

}  // namespace pagoda
