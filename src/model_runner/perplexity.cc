#include "model_runner/perplexity.h"

#include <algorithm>
#include <cmath>

namespace pagoda {

Result<std::vector<float>> score_window(ModelRunner& runner, std::span<const TokenId> tokens,
                                        const PerplexityOptions& options) {
  const std::vector<KvGroup> groups =
      options.groups.empty() ? one_full_group(options.block_size) : options.groups;
  std::vector<BlockId> pages;
  std::vector<std::size_t> begins;  // of each group's, and of what follows
  for (const KvGroup& group : groups) {
    begins.push_back(pages.size());
    for (std::int64_t i = group.rows_for(std::ssize(tokens)) * group.pages_per_row; i > 0; --i)
      pages.push_back(static_cast<BlockId>(pages.size()));
  }
  begins.push_back(pages.size());
  std::vector<KvTable> tables;
  for (std::size_t i = 0; i < groups.size(); ++i)
    tables.push_back({.blocks = std::span(pages).subspan(begins[i], begins[i + 1] - begins[i])});
  std::vector<float> logprobs;
  const auto step = static_cast<std::size_t>(std::max(options.max_num_batched_tokens, 1));
  for (std::size_t first = 0; first < tokens.size(); first += step) {
    ScheduledSequence sequence;
    sequence.num_computed_tokens = static_cast<std::int32_t>(first);
    sequence.tokens = tokens.subspan(first, std::min(step, tokens.size() - first));
    sequence.all_tokens = tokens;
    sequence.num_prompt_tokens = static_cast<std::int32_t>(tokens.size());
    sequence.block_table = tables.front().blocks;
    sequence.more_tables = std::span(tables).subspan(1);
    sequence.prompt_logprobs = 0;
    sequence.rotation = runner.rotation_rule().rotation_of(sequence.num_prompt_tokens);
    ScheduledBatch batch;
    batch.num_tokens = static_cast<std::int32_t>(sequence.tokens.size());
    batch.sequences.push_back(sequence);
    const StepResult result = runner.run(batch);
    PAGODA_RETURN_IF_ERROR(result.status);
    for (const TokenLogprobs& entry : result.sequences.front().prompt_logprobs) {
      logprobs.push_back(entry.chosen.logprob);
    }
  }
  return logprobs;
}

Result<PerplexityResult> measure_perplexity(ModelRunner& runner, std::span<const TokenId> tokens,
                                            const PerplexityOptions& options,
                                            const std::function<void(std::int64_t, std::int64_t)>& progress) {
  if (options.context < 2) return invalid_argument("context must be at least 2 tokens");
  const std::size_t heading = options.bos ? 1 : 0;
  if (tokens.size() + heading < 2)
    return invalid_argument("the text has fewer than 2 tokens: there is nothing to score");
  const std::size_t context = static_cast<std::size_t>(options.context) - heading;  // of the text
  const auto num_windows = static_cast<std::int64_t>((tokens.size() + context - 1) / context);
  PerplexityResult result;
  double sum = 0;
  std::vector<TokenId> window;
  for (std::size_t start = 0; start < tokens.size(); start += context) {
    const std::span<const TokenId> text = tokens.subspan(start, std::min(context, tokens.size() - start));
    window.clear();
    if (options.bos) window.push_back(*options.bos);
    window.insert(window.end(), text.begin(), text.end());
    if (window.size() < 2) break;
    const auto logprobs = score_window(runner, window, options);
    if (!logprobs) return logprobs.error();
    double window_sum = 0;
    for (const float logprob : *logprobs) window_sum -= logprob;
    sum += window_sum;
    result.num_scored += static_cast<std::int64_t>(logprobs->size());
    result.window_mean_nll.push_back(window_sum / static_cast<double>(logprobs->size()));
    if (progress) progress(static_cast<std::int64_t>(result.window_mean_nll.size()), num_windows);
  }
  result.mean_nll = sum / static_cast<double>(result.num_scored);
  result.perplexity = std::exp(result.mean_nll);
  return result;
}

}  // namespace pagoda
