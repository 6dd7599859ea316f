#include "model_runner/reference_check.h"

#include <algorithm>
#include <cmath>

#include "base/assign_or_return.h"
#include "model_runner/perplexity.h"

namespace pagoda {
namespace {

Result<std::vector<float>> score(const std::shared_ptr<const ModelSource>& source,
                                 const RunnerOptions& options, std::span<const TokenId> tokens) {
  PAGODA_ASSIGN_OR_RETURN(auto runner, LocalModelRunner::create(source, options));
  const std::vector<KvGroup>& groups = runner->kv_plan().groups;
  PAGODA_RETURN_IF_ERROR(runner->allocate_kv_cache(pages_for(groups, std::ssize(tokens))));
  return score_window(*runner, tokens,
                      {.context = static_cast<std::int32_t>(tokens.size()),
                       .block_size = options.block_size,
                       .groups = groups,
                       .max_num_batched_tokens = options.max_num_batched_tokens});
}

}  // namespace

Result<ReferenceComparison> compare_with_reference(const std::shared_ptr<const ModelSource>& source,
                                                   RunnerOptions options, std::span<const TokenId> tokens) {
  if (tokens.size() < 2) return invalid_argument("at least 2 tokens are needed for a comparison");
  const auto count = static_cast<std::int32_t>(tokens.size());
  options.max_num_batched_tokens = count;
  options.num_blocks = 0;
  options.num_swap_blocks = 0;
  options.backend = Backend::cpu;
  PAGODA_ASSIGN_OR_RETURN(const auto engine, score(source, options, tokens));
  options.backend = Backend::reference;
  options.dtype = "float32";
  options.kv_cache_dtype = "float32";
  PAGODA_ASSIGN_OR_RETURN(const auto reference, score(source, options, tokens));

  ReferenceComparison comparison;
  comparison.num_scored = static_cast<std::int32_t>(engine.size());
  for (std::size_t i = 0; i < engine.size(); ++i) {
    const double difference = std::abs(static_cast<double>(engine[i]) - reference[i]);
    // Written so that a NaN counts as the largest difference.
    if (!(difference <= comparison.max_logprob_difference)) comparison.max_logprob_difference = difference;
    comparison.engine_mean_nll -= engine[i] / static_cast<double>(engine.size());
    comparison.reference_mean_nll -= reference[i] / static_cast<double>(engine.size());
  }
  return comparison;
}

}  // namespace pagoda
