#include "sampler/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "kernels/logits.h"
#include "kernels/tiles.h"
#include "request/forced_token.h"
#include "sampler/vector_math.h"

namespace pagoda {
namespace {

// The `count` most likely tokens; equal logits share the better rank.
std::vector<TokenLogprob> top_logprobs(const KernelContext& context, std::span<const float> logits,
                                       std::int32_t count, float normalizer) {
  std::vector<TokenLogprob> top;
  if (count < 0) count = static_cast<std::int32_t>(logits.size());
  if (count == 0) return top;
  top.reserve(static_cast<std::size_t>(count));
  float previous = 0;
  for (const LogitMax& entry : top_logits(context, logits, count)) {
    const auto place = static_cast<std::int32_t>(top.size()) + 1;
    const bool tied = !top.empty() && entry.value == previous;
    top.push_back({entry.index, entry.value - normalizer, tied ? top.back().rank : place});
    previous = entry.value;
  }
  return top;
}

// Computes log-probabilities of the distribution `left` that is drawn from: for `candidates`, and for the
// `count` most likely tokens.
std::vector<TokenLogprob> score_draws(std::vector<std::pair<TokenId, double>> left, std::int32_t count,
                                      std::span<Candidate> candidates) {
  const auto score_of = [&left](const std::pair<TokenId, double>& entry) -> TokenLogprob {
    const auto likelier = std::ranges::count_if(left, [&](const auto& e) { return e.second > entry.second; });
    return {entry.first, static_cast<float>(std::log(entry.second)), static_cast<std::int32_t>(likelier) + 1};
  };
  for (Candidate& candidate : candidates) {
    const auto found = std::ranges::find(left, candidate.token, &std::pair<TokenId, double>::first);
    if (found == left.end()) continue;
    const TokenLogprob score = score_of(*found);
    candidate.logprob = score.logprob;
    candidate.rank = score.rank;
  }
  const std::size_t wanted = count < 0 ? left.size() : std::min(left.size(), static_cast<std::size_t>(count));
  std::ranges::partial_sort(left, left.begin() + static_cast<std::ptrdiff_t>(wanted),
                            [](const auto& a, const auto& b) {
                              return a.second != b.second ? a.second > b.second : a.first < b.first;
                            });
  left.resize(wanted);
  std::vector<TokenLogprob> top;
  for (const auto& entry : left) top.push_back(score_of(entry));
  return top;
}

bool is_greedy(const SamplingParams& params) { return params.temperature < kGreedyTemperature; }

bool needs_logprob(const SampleRow& row) {
  return row.beam || row.params->logprobs.has_value() || row.params->best_of > row.params->n;
}

}  // namespace

Sampler::Sampler(const KernelContext& context)
    : context_(context), row_context_(context), scratch_(static_cast<std::size_t>(num_threads(context))) {
  row_context_.pool = nullptr;
}

// Under structured output, most blocks of a row allow nothing, mostly the same blocks as in the previous row:
// blocks that stay closed are not rewritten.
std::span<const float> Sampler::Masked::apply(CpuLevel level, const SampleRow& row) {
  constexpr std::size_t kWords = kMaximaBlock / 32;
  const std::size_t vocab = row.logits.size(), words = mask_words(static_cast<std::int32_t>(vocab));
  if (logits.size() != vocab) {
    logits.assign(vocab, -std::numeric_limits<float>::infinity());
    open.assign(static_cast<std::size_t>(num_maxima_blocks(std::ssize(logits))), 0);
  }
  for (std::size_t block = 0; block < open.size(); ++block) {
    const std::size_t word = block * kWords, first = block * kMaximaBlock;
    const MaskWord some = row.mask[word] | (word + 1 < words ? row.mask[word + 1] : 0);
    if (some == 0 && open[block] == 0) continue;
    open[block] = some != 0 ? 1 : 0;
    masked_copy(level, row.logits.data() + first, row.mask.data() + word,
                static_cast<std::int64_t>(std::min<std::size_t>(kMaximaBlock, vocab - first)),
                logits.data() + first);
  }
  return logits;
}
static_assert(kMaximaBlock == 64);

void Sampler::sample(std::span<const SampleRow> rows) {
  const auto body = [&](std::int64_t tile, int worker) {
    sample_row(rows[static_cast<std::size_t>(tile)], scratch_[static_cast<std::size_t>(worker)]);
  };
  for_tiles(context_, static_cast<std::int64_t>(rows.size()), body);
}

bool Sampler::takes_largest(const SampleRow& row) {
  return row.mask.empty() && is_greedy(*row.params) && !needs_logprob(row) &&
         !needs_processing(*row.params, static_cast<std::int32_t>(row.output.size()));
}

bool Sampler::settle(const SampleRow& row, std::int32_t vocab_size) {
  if (row.mask.empty() || needs_logprob(row)) return false;
  const TokenId only = forced_token(row.mask, vocab_size);
  if (only >= 0) take(row, only);
  return only >= 0;
}

void Sampler::take(const SampleRow& row, TokenId token) {
  row.result->candidates.assign(row.num_candidates, {.token = token});
}

void Sampler::sample_row(const SampleRow& row, Scratch& scratch) const {
  const SamplingParams& params = *row.params;
  SequenceResult& result = *row.result;
  const auto vocab = static_cast<std::int32_t>(row.logits.size());
  if (takes_largest(row)) return take(row, max_logit(row_context_, row.logits).index);
  result.candidates.clear();

  // A masked row's distribution covers only the allowed tokens.
  const std::span<const float> raw =
      row.mask.empty() ? row.logits : scratch.masked.apply(context_.level, row);
  const bool with_logprob = needs_logprob(row);
  const bool processed = params.processed_logprobs && !row.beam;
  const float normalizer = with_logprob && !processed ? log_sum_exp(row_context_, raw) : 0;
  const auto most_likely = [&](std::int32_t count) {
    std::vector<TokenLogprob> top = top_logprobs(row_context_, raw, count, normalizer);
    if (!row.mask.empty())
      std::erase_if(top, [&](const TokenLogprob& t) { return !allows(row.mask, t.token); });
    return top;
  };
  if (params.logprobs && !processed) result.top = most_likely(*params.logprobs);

  if (row.beam) {
    const auto width = static_cast<std::int32_t>(std::min<std::uint32_t>(row.num_candidates, raw.size()));
    for (const TokenLogprob& entry : most_likely(width))
      result.candidates.push_back({entry.token, entry.logprob, entry.rank});
    return;
  }

  std::span<const float> logits = raw;
  if (needs_processing(params, static_cast<std::int32_t>(row.output.size()))) {
    scratch.logits.assign(raw.begin(), raw.end());
    scratch.processor.process(params, row.prompt, row.output, scratch.logits);
    logits = scratch.logits;
  }
  const bool greedy = is_greedy(params), may_lack_all = logits.data() != row.logits.data();
  LogitMax best = {};
  bool all_masked = false;
  if (greedy) {
    best = max_logit(row_context_, logits);
    all_masked = may_lack_all && best.value == -std::numeric_limits<float>::infinity();
  } else {
    const bool of_mask = !row.mask.empty() && logits.data() == raw.data();
    const std::span<const std::uint8_t> open =
        of_mask ? std::span(scratch.masked.open) : std::span<const std::uint8_t>();
    all_masked = !scratch.distribution.assign(context_.level, logits, params, open) && may_lack_all;
  }
  // If every token is masked, take the best of the raw logits rather than end the sequence.
  if (all_masked) best = max_logit(row_context_, raw);
  for (std::uint32_t i = 0; i < row.num_candidates; ++i) {
    Candidate candidate;
    candidate.token = best.index;
    if (!greedy && !all_masked) {
      candidate.token = scratch.distribution.draw(random_uniform(
          row.seed, std::uint64_t{row.first_stream} + i, static_cast<std::uint64_t>(row.position)));
    }
    if (candidate.token < 0 || candidate.token >= vocab) candidate.token = 0;  // only from NaN logits
    if (with_logprob && !processed) {
      const float logit = raw[static_cast<std::size_t>(candidate.token)];
      candidate.logprob = logit - normalizer;
      if (params.logprobs) candidate.rank = logit_rank(row_context_, raw, logit);
    }
    result.candidates.push_back(candidate);
  }
  if (!with_logprob || !processed) return;
  const bool drawn = !greedy && !all_masked;
  result.top = score_draws(drawn ? scratch.distribution.probabilities()
                                 : std::vector{std::pair(result.candidates.front().token, 1.0)},
                           params.logprobs.value_or(0), result.candidates);
}

void Sampler::score_prompt(std::span<const PromptRow> rows) {
  const auto body = [&](std::int64_t tile, int) {
    const PromptRow& row = rows[static_cast<std::size_t>(tile)];
    const float normalizer = log_sum_exp(row_context_, row.logits);
    const float logit = row.logits[static_cast<std::size_t>(row.token)];
    row.result->chosen = {row.token, logit - normalizer, logit_rank(row_context_, row.logits, logit)};
    row.result->top = top_logprobs(row_context_, row.logits, row.num_top, normalizer);
  };
  for_tiles(context_, static_cast<std::int64_t>(rows.size()), body);
}

}  // namespace pagoda
