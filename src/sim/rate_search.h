#pragma once
// The highest rate that holds, by asking of single rates whether they do. Asked with common random numbers
// (the same requests, their gaps scaled), what holds is nearly monotone, but batches make it dip now and
// then: so a rate counts only when those a little below it hold as well, and the answer is the same whichever
// rates the search came by; of dips below dips it follows four. Threads: none.
#include <functional>
#include <optional>

#include "base/status.h"

namespace pagoda {

// To 2 %; `first` is where it begins, and `step` the factor between rates until one holds and one does not.
// nullopt: not even kMinRate holds. Errors are those of `holds`.
inline constexpr double kMinRate = 1e-3, kMaxRate = 1e6;
Result<std::optional<double>> highest_rate_that_holds(const std::function<Result<bool>(double)>& holds,
                                                      double first, double step = 2);

}  // namespace pagoda
