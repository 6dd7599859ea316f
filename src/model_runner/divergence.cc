#include "model_runner/divergence.h"

#include <algorithm>
#include <cmath>

#include "base/assign_or_return.h"

namespace pagoda {
namespace {

// Number of positions whose full distributions are in memory at a time.
constexpr std::size_t kStep = 16;

// `by_token` is scratch.
double divergence(const TokenLogprobs& reference, const TokenLogprobs& other, std::vector<float>& by_token) {
  by_token.resize(other.top.size());
  for (const TokenLogprob& entry : other.top) by_token[static_cast<std::size_t>(entry.token)] = entry.logprob;
  double sum = 0;
  for (const TokenLogprob& entry : reference.top) {
    const double logprob = entry.logprob;
    sum += std::exp(logprob) * (logprob - by_token[static_cast<std::size_t>(entry.token)]);
  }
  return std::max(sum, 0.0);
}

// Standard error of the mean of independent values.
double standard_error(std::span<const double> values, double mean) {
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return count > 1 ? std::sqrt(squares / (count - 1) / count) : 0;
}

}  // namespace

Result<DivergenceResult> measure_divergence(ModelRunner& runner, ModelRunner& reference,
                                            const std::vector<KvGroup>& reference_groups,
                                            std::int32_t vocab_size, std::span<const TokenId> tokens,
                                            const PerplexityOptions& options,
                                            const std::function<void(std::int64_t)>& progress) {
  DivergenceResult result;
  std::vector<double> of_position, differences;
  std::vector<float> by_token;
  std::int64_t num_same = 0, num_windows = 0;
  PerplexityOptions reference_options = options;
  reference_options.groups = reference_groups;
  PAGODA_RETURN_IF_ERROR(for_each_window(tokens, options, [&](std::span<const TokenId> window) {
    WindowRun run(runner, window, options, vocab_size);
    WindowRun reference_run(reference, window, reference_options, vocab_size);
    const std::size_t step = std::min(kStep, static_cast<std::size_t>(options.max_num_batched_tokens));
    while (!run.done()) {
      PAGODA_ASSIGN_OR_RETURN(const auto entries, run.next(step));
      PAGODA_ASSIGN_OR_RETURN(const auto expected, reference_run.next(step));
      for (std::size_t i = 0; i < entries.size(); ++i) {
        const TokenLogprobs &entry = entries[i], &known = expected[i];
        of_position.push_back(divergence(known, entry, by_token));
        num_same += entry.top.front().token == known.top.front().token ? 1 : 0;
        result.mean_nll -= entry.chosen.logprob;
        result.reference_mean_nll -= known.chosen.logprob;
        differences.push_back(known.chosen.logprob - entry.chosen.logprob);
      }
    }
    ++num_windows;
    if (progress) progress(num_windows);
    return ok_status();
  }));
  const auto count = static_cast<double>(of_position.size());
  for (const double value : of_position) result.mean += value / count;
  std::ranges::sort(of_position);
  result.num_scored = std::ssize(of_position);
  result.p99 = of_position[(of_position.size() - 1) * 99 / 100];
  result.largest = of_position.back();
  result.same_top = static_cast<double>(num_same) / count;
  result.mean_nll /= count;
  result.reference_mean_nll /= count;
  result.nll_difference_error = standard_error(differences, result.mean_nll - result.reference_mean_nll);
  return result;
}

}  // namespace pagoda
