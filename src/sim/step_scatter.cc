#include "sim/step_scatter.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/random.h"

namespace pagoda {

double StepScatter::next(bool has_prompts) {
  const std::vector<double>& quantiles =
      has_prompts && !model_.prompt_scatter.empty() ? model_.prompt_scatter : model_.decode_scatter;
  if (quantiles.empty()) return 1;
  constexpr std::uint64_t kRadius = 1, kAngle = 2;  // random streams
  const double radius = std::sqrt(-2 * std::log1p(-random_uniform(seed_, kRadius, draws_)));
  const double angle = 2 * std::numbers::pi * random_uniform(seed_, kAngle, draws_);
  const double rho = draws_ == 0 ? 0 : model_.scatter_correlation;
  ++draws_;
  slow_ = rho * slow_ + std::sqrt(1 - rho * rho) * radius * std::cos(angle);
  const double of_slow = model_.scatter_share > 0 ? model_.scatter_share : 1;
  const double score = std::sqrt(of_slow) * slow_ + std::sqrt(1 - of_slow) * radius * std::sin(angle);
  const double share = std::erfc(-score / std::numbers::sqrt2) / 2;
  const auto count = static_cast<double>(quantiles.size());
  const double position = std::clamp(share * count - 0.5, 0.0, count - 1);
  const std::size_t below = std::min(static_cast<std::size_t>(position), quantiles.size() - 2);
  return std::lerp(quantiles[below], quantiles[below + 1], position - static_cast<double>(below));
}

}  // namespace pagoda
