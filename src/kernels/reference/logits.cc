#include "kernels/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/reference.h"

namespace pagoda::reference {

LogitMax max_logit(std::span<const float> logits) {
  if (logits.empty()) return {};
  LogitMax best{0, -std::numeric_limits<float>::infinity()};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best.value) best = {static_cast<std::int32_t>(i), logits[i]};
  }
  return best;
}

float log_sum_exp(std::span<const float> logits) {
  if (logits.empty()) return -std::numeric_limits<float>::infinity();
  const double largest = max_logit(logits).value;
  if (std::isinf(largest)) return static_cast<float>(largest);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return static_cast<float>(largest + std::log(sum));
}

std::vector<LogitMax> top_logits(std::span<const float> logits, std::int32_t k) {
  std::vector<LogitMax> all;
  all.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) all.push_back({static_cast<std::int32_t>(i), logits[i]});
  const auto count = std::min(all.size(), static_cast<std::size_t>(std::max(k, 0)));
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                    [](const LogitMax& a, const LogitMax& b) {
                      return a.value > b.value || (a.value == b.value && a.index < b.index);
                    });
  all.resize(count);
  return all;
}

std::int32_t logit_rank(std::span<const float> logits, float value) {
  return 1 + static_cast<std::int32_t>(
                 std::count_if(logits.begin(), logits.end(), [&](float logit) { return logit > value; }));
}

}  // namespace pagoda::reference
