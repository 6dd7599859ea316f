#include "sampler/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"
#include "sampler/vector_math.h"

namespace pagoda {
namespace {

// Weights are in [0, 1], where floats sort like their bit patterns.
constexpr int kBucketShift = 19;  // the exponent and four bits of the mantissa
constexpr std::size_t kNumBuckets = (std::size_t{0x3F800000} >> kBucketShift) + 2;

std::size_t bucket_of(float weight) {
  return std::min<std::size_t>(std::bit_cast<std::uint32_t>(weight) >> kBucketShift, kNumBuckets - 1);
}

}  // namespace

bool Distribution::assign(CpuLevel level, std::span<const float> logits, const SamplingParams& params,
                          std::span<const std::uint8_t> open) {
  const auto vocab = static_cast<std::int64_t>(logits.size());
  const float temperature = std::max(params.temperature, kMinTemperature);
  maxima_.resize(static_cast<std::size_t>(num_maxima_blocks(vocab)));
  if (open.empty())
    block_maxima(level, logits.data(), vocab, maxima_.data());
  else
    maxima_of_open(level, logits, open);
  const float maximum = *std::max_element(maxima_.begin(), maxima_.end());
  const bool any = maximum > -std::numeric_limits<float>::infinity();

  // min_p and top_k keep logits at or above a bound, and temperature preserves order: one threshold suffices.
  float threshold = -std::numeric_limits<float>::infinity();
  if (params.min_p > 0) threshold = maximum + temperature * std::log(params.min_p);
  if (params.top_k > 0 && params.top_k < vocab) {
    threshold = std::max(threshold, top_k_threshold(logits, params.top_k));
  }
  const bool cut = threshold > -std::numeric_limits<float>::infinity();

  const bool typical = params.typical_p < 1.0f;
  plain_ = !cut && params.top_p >= 1.0f && !typical;
  kept_.clear();
  if (cut) {
    keep_from(logits, threshold);
    values_.clear();
    for (const Entry& entry : kept_) values_.push_back(entry.logit);
    weights_.resize(std::max(weights_.size(), values_.size()));
    block_sums_.resize(static_cast<std::size_t>(num_sum_blocks(static_cast<std::int64_t>(values_.size()))));
    exponentials(level, values_.data(), static_cast<std::int64_t>(values_.size()), maximum,
                 1.0f / temperature, weights_.data(), block_sums_.data());
    total_ = 0;
    for (std::size_t i = 0; i < kept_.size(); ++i) total_ += kept_[i].weight = weights_[i];
    if (params.top_p < 1.0f) keep_nucleus(static_cast<double>(params.top_p) * total_);
    if (typical) keep_typical(maximum, temperature, params.typical_p);
    return any;
  }
  weigh_all(level, logits, maximum, 1.0f / temperature);
  total_ = 0;
  for (const float sum : block_sums_) total_ += sum;
  if (params.top_p < 1.0f)
    nucleus_of_all(logits, maximum, temperature, static_cast<double>(params.top_p) * total_);
  else if (typical)
    keep_all(logits);
  if (typical) keep_typical(maximum, temperature, params.typical_p);
  return any;
}

void Distribution::maxima_of_open(CpuLevel level, std::span<const float> logits,
                                  std::span<const std::uint8_t> open) {
  CHECK(open.size() == maxima_.size());
  for (std::size_t block = 0; block < open.size();) {
    const std::size_t first = block;
    while (block < open.size() && open[block] == open[first]) ++block;
    if (open[first] == 0) {
      std::fill(maxima_.begin() + static_cast<std::ptrdiff_t>(first),
                maxima_.begin() + static_cast<std::ptrdiff_t>(block),
                -std::numeric_limits<float>::infinity());
      continue;
    }
    const std::size_t start = first * kMaximaBlock, end = std::min(block * kMaximaBlock, logits.size());
    block_maxima(level, logits.data() + start, static_cast<std::int64_t>(end - start),
                 maxima_.data() + first);
  }
}

// Skips blocks in which all logits are masked (nearly all of them under structured output): they have no
// weight. The weights of a block with sum zero are never read.
void Distribution::weigh_all(CpuLevel level, std::span<const float> logits, float maximum, float scale) {
  constexpr std::size_t kMaximaOfBlock = kSumBlock / kMaximaBlock;
  weights_.resize(logits.size());
  block_sums_.assign(static_cast<std::size_t>(num_sum_blocks(std::ssize(logits))), 0);
  for (std::size_t block = 0; block < block_sums_.size(); ++block) {
    const std::size_t start = block * kSumBlock,
                      count = std::min<std::size_t>(kSumBlock, logits.size() - start);
    const auto maxima = std::span(maxima_).subspan(block * kMaximaOfBlock);
    const bool masked =
        std::ranges::all_of(maxima.first(std::min(kMaximaOfBlock, maxima.size())),
                            [](float most) { return most == -std::numeric_limits<float>::infinity(); });
    if (!masked)
      exponentials(level, logits.data() + start, static_cast<std::int64_t>(count), maximum, scale,
                   weights_.data() + start, block_sums_.data() + block);
  }
}

// Returns the k-th largest logit. The k-th largest block maximum is a lower bound, which leaves a few times k
// candidates to select from.
float Distribution::top_k_threshold(std::span<const float> logits, std::int32_t k) {
  const auto nth = static_cast<std::ptrdiff_t>(k - 1);
  float bound = -std::numeric_limits<float>::infinity();
  if (static_cast<std::size_t>(k) <= maxima_.size()) {
    values_ = maxima_;
    std::nth_element(values_.begin(), values_.begin() + nth, values_.end(), std::greater<>());
    bound = values_[static_cast<std::size_t>(nth)];
  }
  values_.clear();
  for (std::size_t block = 0; block < maxima_.size(); ++block) {
    if (maxima_[block] < bound) continue;
    const std::size_t start = block * kMaximaBlock;
    for (const float logit :
         logits.subspan(start, std::min<std::size_t>(kMaximaBlock, logits.size() - start))) {
      if (logit >= bound) values_.push_back(logit);
    }
  }
  if (values_.size() < static_cast<std::size_t>(k)) return bound;  // NaN logits: nothing more to cut
  std::nth_element(values_.begin(), values_.begin() + nth, values_.end(), std::greater<>());
  return values_[static_cast<std::size_t>(nth)];
}

// Appends every token whose logit is at least `threshold`, ascending by token.
void Distribution::keep_from(std::span<const float> logits, float threshold) {
  Entry found[kMaximaBlock];
  for (std::size_t block = 0; block < maxima_.size(); ++block) {
    if (!(maxima_[block] >= threshold)) continue;
    const std::size_t end = std::min((block + 1) * kMaximaBlock, logits.size());
    Entry* next = found;  // avoids a branch per token: in a flat distribution half of them pass
    for (std::size_t i = block * kMaximaBlock; i < end; ++i) {
      *next = {static_cast<TokenId>(i), logits[i], 0};
      next += logits[i] >= threshold ? 1 : 0;
    }
    kept_.insert(kept_.end(), found, next);
  }
}

// Keeps the most probable tokens of kept_ until their weights reach `mass`, at least one; equivalent to
// vLLM's "cut the ascending cumulative sum up to 1 - top_p". Among equal weights the smaller token stays.
void Distribution::keep_nucleus(double mass) {
  // Only infinities and NaNs leave no weight at all; then any kept token will do.
  if (!(total_ > 0)) return kept_.resize(std::min<std::size_t>(kept_.size(), 1));
  const auto more_probable = [](const Entry& a, const Entry& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
  };
  // First finds the bucket of weights (a sixteenth of an octave) that contains the last token of the nucleus,
  // then the token itself.
  bucket_sums_.assign(kNumBuckets, 0.0);
  for (const Entry& entry : kept_) bucket_sums_[bucket_of(entry.weight)] += entry.weight;
  std::size_t bucket = kNumBuckets - 1;
  while (bucket > 0 && bucket_sums_[bucket] == 0) --bucket;  // even a tiny mass keeps the most probable token
  double before = 0;                                         // weight of all more probable buckets
  while (bucket > 0 && before + bucket_sums_[bucket] < mass) before += bucket_sums_[bucket--];
  // Rounding may have passed the last bucket with any weight.
  while (bucket_sums_[bucket] == 0 && bucket + 1 < kNumBuckets) ++bucket;
  ranked_.clear();
  for (const Entry& entry : kept_) {
    if (bucket_of(entry.weight) == bucket) ranked_.push_back(entry);
  }
  std::sort(ranked_.begin(), ranked_.end(), more_probable);
  auto first = ranked_.begin();
  while (ranked_.end() - first > 1 && (before += first->weight) < mass) ++first;
  const Entry edge = *first;
  std::erase_if(kept_, [&](const Entry& entry) { return more_probable(edge, entry); });
  total_ = 0;
  for (const Entry& entry : kept_) total_ += entry.weight;
}

// Finds the nucleus in the whole vocabulary: lowers a threshold until the candidates above it hold `mass`, so
// that usually only a few hundred tokens are examined.
void Distribution::nucleus_of_all(std::span<const float> logits, float maximum, float temperature,
                                  double mass) {
  // Weights are exp((logit - maximum) / temperature), zero from exp(-87) on.
  for (float depth = 4;; depth *= 2) {
    kept_.clear();
    keep_from(logits, maximum - depth * temperature);
    double sum = 0;
    for (Entry& entry : kept_) sum += entry.weight = weights_[static_cast<std::size_t>(entry.token)];
    if (sum >= mass || depth > 87) break;
  }
  keep_nucleus(mass);
}

TokenId Distribution::draw(double uniform) const {
  double target = uniform * total_;
  TokenId last = -1;  // rounding may leave a remainder of target, which goes to the last token with weight
  if (!plain_) {
    if (!kept_.empty()) last = kept_.front().token;  // default if no token has weight
    for (const Entry& entry : kept_) {
      if (entry.weight > 0) last = entry.token;
      if (target < entry.weight) return entry.token;
      target -= entry.weight;
    }
    return last;
  }
  for (std::size_t block = 0; block < block_sums_.size(); ++block) {
    if (block_sums_[block] == 0) continue;
    const std::size_t start = block * kSumBlock;
    if (target >= block_sums_[block]) {
      target -= block_sums_[block];
      last = static_cast<TokenId>(start);  // start of a block with weight; the token is found below
      continue;
    }
    return draw_in_block(start, target);
  }
  return draw_in_block(static_cast<std::size_t>(last), std::numeric_limits<double>::infinity());
}

TokenId Distribution::draw_in_block(std::size_t start, double target) const {
  TokenId last = static_cast<TokenId>(start);
  const std::size_t end = std::min(start + kSumBlock, weights_.size());
  for (std::size_t i = start; i < end; ++i) {
    if (weights_[i] > 0) last = static_cast<TokenId>(i);
    if (target < weights_[i]) break;
    target -= weights_[i];
  }
  return last;
}

std::vector<std::pair<TokenId, double>> Distribution::probabilities() const {
  std::vector<std::pair<TokenId, double>> result;
  if (plain_) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (block_sums_[i / kSumBlock] > 0 && weights_[i] > 0)
        result.emplace_back(static_cast<TokenId>(i), weights_[i] / total_);
    }
  } else {
    for (const Entry& entry : kept_) result.emplace_back(entry.token, entry.weight / total_);
  }
  return result;
}

}  // namespace pagoda
