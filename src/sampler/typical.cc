// Typical sampling: of the tokens left by the other cuts, keeps those whose surprise, -log p, is nearest to
// the distribution's entropy. Source: Meister et al. 2022 (arXiv:2202.00666); transformers'
// TypicalLogitsWarper, which also comes after the other cuts.
#include <algorithm>
#include <cmath>
#include <functional>

#include "sampler/distribution.h"
#include "sampler/vector_math.h"

namespace pagoda {

// Keeps the tokens of kept_ that are nearest to the entropy until their share of the weights reaches `mass`,
// at least one; all tokens at the same distance are kept or dropped together. Sums run in token order.
void Distribution::keep_typical(float maximum, float temperature, double mass) {
  if (!(total_ > 0)) return kept_.resize(std::min<std::size_t>(kept_.size(), 1));
  std::erase_if(kept_, [](const Entry& entry) { return !(entry.weight > 0); });
  const double log_total = std::log(total_);
  const auto surprise = [&](const Entry& entry) {
    return log_total - (static_cast<double>(entry.logit) - maximum) / temperature;
  };
  double entropy = 0;
  for (const Entry& entry : kept_) entropy += entry.weight / total_ * surprise(entry);
  const auto distance = [&](const Entry& entry) { return std::abs(surprise(entry) - entropy); };
  distances_.clear();
  for (const Entry& entry : kept_) distances_.emplace_back(distance(entry), entry.weight);
  // A heap, since a few tokens of the vocabulary usually suffice.
  std::ranges::make_heap(distances_, std::greater<>());
  double sum = 0, farthest = 0;
  for (auto end = distances_.end();
       end != distances_.begin() && (end == distances_.end() || sum < mass * total_); --end) {
    std::pop_heap(distances_.begin(), end, std::greater<>());
    farthest = (end - 1)->first;
    sum += (end - 1)->second;
  }
  std::erase_if(kept_, [&](const Entry& entry) { return distance(entry) > farthest; });
  total_ = 0;
  for (const Entry& entry : kept_) total_ += entry.weight;
}

// Keeps all tokens with a weight, from the weights of the whole vocabulary.
void Distribution::keep_all(std::span<const float> logits) {
  for (std::size_t block = 0; block < block_sums_.size(); ++block) {
    if (block_sums_[block] == 0) continue;
    const std::size_t end = std::min((block + 1) * kSumBlock, logits.size());
    for (std::size_t i = block * kSumBlock; i < end; ++i)
      if (weights_[i] > 0) kept_.push_back({static_cast<TokenId>(i), logits[i], weights_[i]});
  }
}

}  // namespace pagoda
