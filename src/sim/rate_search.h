#pragma once
// Searches for the highest rate that holds, by testing single rates. With common random numbers (the same
// requests with scaled gaps) the test is nearly monotone, but batching makes it dip occasionally. A rate
// therefore counts only if slightly lower rates hold as well, so that the answer does not depend on the rates
// tested on the way. The search continues below a dip at most four times. Threads: none.
#include <functional>
#include <optional>

#include "base/status.h"

namespace pagoda {

// Precision: 2 %. The search starts at `first` and multiplies or divides by `step` until one rate holds and
// another does not. nullopt if not even kMinRate holds. Returns the errors of `holds`.
inline constexpr double kMinRate = 1e-3, kMaxRate = 1e6;
Result<std::optional<double>> highest_rate_that_holds(const std::function<Result<bool>(double)>& holds,
                                                      double first, double step = 2);

}  // namespace pagoda
