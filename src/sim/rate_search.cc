#include "sim/rate_search.h"

#include <cmath>

#include "base/assign_or_return.h"

namespace pagoda {
namespace {

constexpr double kPrecision = 1.02, kBack = 0.9;
// Fractions of the rate found that must hold as well.
constexpr double kBelow[] = {0.96, 0.92, 0.85, 0.75};
// If the limits are close to the time of a single request, chance decides at every rate. The search ends
// after this many dips.
constexpr int kMaxDips = 4;

}  // namespace

Result<std::optional<double>> highest_rate_that_holds(const std::function<Result<bool>(double)>& holds,
                                                      double first, double step) {
  using Found = std::optional<double>;
  double low = 0, high = 0;  // low holds, high does not; 0: unknown
  for (double rate = first; low == 0 || high == 0; rate = low > 0 ? low * step : high / step) {
    if (rate > kMaxRate) return Found(low);
    if (rate < kMinRate) return Found();
    PAGODA_ASSIGN_OR_RETURN(const auto answer, holds(rate));
    (answer ? low : high) = rate;
  }
  for (int dips = 0;; ++dips) {
    while (high / low > kPrecision) {
      const double middle = std::sqrt(low * high);
      PAGODA_ASSIGN_OR_RETURN(const auto answer, holds(middle));
      (answer ? low : high) = middle;
    }
    double dip = 0;
    for (const double share : kBelow) {
      PAGODA_ASSIGN_OR_RETURN(const auto answer, holds(share * low));
      if (!answer) dip = share * low;
      if (dip > 0) break;
    }
    if (dip == 0 || dips == kMaxDips) return Found(low);
    // Continue below the dip.
    high = dip;
    for (low = 0; low == 0;) {
      const double rate = kBack * high;
      if (rate < kMinRate) return Found();
      PAGODA_ASSIGN_OR_RETURN(const auto answer, holds(rate));
      (answer ? low : high) = rate;
    }
  }
}

}  // namespace pagoda
