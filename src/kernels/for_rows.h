#pragma once
// for_rows: spreads the rows of a row-wise op over the context's threads, in ranges large enough to be worth
// it.
#include <algorithm>
#include <cstdint>

#include "kernels/tiles.h"

namespace pagoda {

// Calls body(row) for each row of `width` elements.
template <class Body>
void for_rows(const KernelContext& context, std::int64_t num_rows, std::int64_t width, const Body& body) {
  constexpr std::int64_t kGrain = 8192;  // elements below which a second thread is not worth waking
  for_ranges(context, num_rows, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(width, 1)),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) body(row);
             });
}

}  // namespace pagoda
