#include "model_runner/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/assign_or_return.h"

namespace pagoda {

WindowRun::WindowRun(ModelRunner& runner, std::span<const TokenId> tokens, const PerplexityOptions& options,
                     std::int32_t num_top)
    : runner_(runner), tokens_(tokens), num_top_(num_top) {
  const std::vector<KvGroup> groups =
      options.groups.empty() ? one_full_group(options.block_size) : options.groups;
  std::vector<std::size_t> begins;  // first page of each group, then the total
  for (const KvGroup& group : groups) {
    begins.push_back(pages_.size());
    for (std::int64_t i = group.rows_for(std::ssize(tokens)) * group.pages_per_row; i > 0; --i)
      pages_.push_back(static_cast<BlockId>(pages_.size()));
  }
  begins.push_back(pages_.size());
  for (std::size_t i = 0; i < groups.size(); ++i)
    tables_.push_back({.blocks = std::span(pages_).subspan(begins[i], begins[i + 1] - begins[i])});
}

Result<std::vector<TokenLogprobs>> WindowRun::next(std::size_t count) {
  ScheduledSequence sequence;
  sequence.num_computed_tokens = static_cast<std::int32_t>(first_);
  sequence.tokens = tokens_.subspan(first_, std::min(count, tokens_.size() - first_));
  sequence.all_tokens = tokens_;
  sequence.num_prompt_tokens = static_cast<std::int32_t>(tokens_.size());
  sequence.block_table = tables_.front().blocks;
  sequence.more_tables = std::span(tables_).subspan(1);
  sequence.prompt_logprobs = num_top_;
  sequence.rotation = runner_.rotation_rule().rotation_of(sequence.num_prompt_tokens);
  ScheduledBatch batch;
  batch.num_tokens = static_cast<std::int32_t>(sequence.tokens.size());
  batch.sequences.push_back(sequence);
  StepResult result = runner_.run(batch);
  PAGODA_RETURN_IF_ERROR(result.status);
  first_ += sequence.tokens.size();
  return std::move(result.sequences.front().prompt_logprobs);
}

Result<std::vector<float>> score_window(ModelRunner& runner, std::span<const TokenId> tokens,
                                        const PerplexityOptions& options) {
  std::vector<float> logprobs;
  WindowRun window(runner, tokens, options);
  while (!window.done()) {
    PAGODA_ASSIGN_OR_RETURN(
        const auto entries,
        window.next(static_cast<std::size_t>(std::max(options.max_num_batched_tokens, 1))));
    for (const TokenLogprobs& entry : entries) logprobs.push_back(entry.chosen.logprob);
  }
  return logprobs;
}

Status for_each_window(std::span<const TokenId> tokens, const PerplexityOptions& options,
                       const std::function<Status(std::span<const TokenId> window)>& body) {
  if (options.context < 2) return invalid_argument("context must be at least 2 tokens");
  const std::size_t heading = options.bos ? 1 : 0;
  if (tokens.size() + heading < 2)
    return invalid_argument("the text has fewer than 2 tokens, so there is nothing to score");
  const std::size_t context = static_cast<std::size_t>(options.context) - heading;  // text tokens per window
  std::vector<TokenId> window;
  for (std::size_t start = 0; start < tokens.size(); start += context) {
    const std::span<const TokenId> text = tokens.subspan(start, std::min(context, tokens.size() - start));
    window.clear();
    if (options.bos) window.push_back(*options.bos);
    window.insert(window.end(), text.begin(), text.end());
    if (window.size() < 2) break;
    PAGODA_RETURN_IF_ERROR(body(window));
  }
  return ok_status();
}

Result<PerplexityResult> measure_perplexity(ModelRunner& runner, std::span<const TokenId> tokens,
                                            const PerplexityOptions& options,
                                            const std::function<void(std::int64_t)>& progress) {
  PerplexityResult result;
  double sum = 0;
  PAGODA_RETURN_IF_ERROR(for_each_window(tokens, options, [&](std::span<const TokenId> window) {
    PAGODA_ASSIGN_OR_RETURN(const auto logprobs, score_window(runner, window, options));
    double window_sum = 0;
    for (const float logprob : logprobs) window_sum -= logprob;
    sum += window_sum;
    result.num_scored += static_cast<std::int64_t>(logprobs.size());
    result.window_mean_nll.push_back(window_sum / static_cast<double>(logprobs.size()));
    if (progress) progress(std::ssize(result.window_mean_nll));
    return ok_status();
  }));
  result.mean_nll = sum / static_cast<double>(result.num_scored);
  result.perplexity = std::exp(result.mean_nll);
  return result;
}

}  // namespace pagoda
