#pragma once
// for_tiles: the one way in which kernels spread work over the context's threads.
#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"

namespace pagoda {

// body(tile, worker) for each tile; on the calling thread alone when there is no pool.
template <class Body>
void for_tiles(const KernelContext& context, std::int64_t num_tiles, const Body& body) {
  if (context.pool == nullptr || num_tiles <= 1) {
    for (std::int64_t tile = 0; tile < num_tiles; ++tile) body(tile, 0);
  } else {
    context.pool->parallel_for(num_tiles, body);
  }
}

// body(first, last) over ranges of [0, count) of at least `grain` items each.
template <class Body>
void for_ranges(const KernelContext& context, std::int64_t count, std::int64_t grain, const Body& body) {
  const std::int64_t threads = context.pool == nullptr ? 1 : context.pool->num_threads();
  const std::int64_t size =
      std::max(std::max<std::int64_t>(grain, 1), (count + 4 * threads - 1) / (4 * threads));
  for_tiles(context, (count + size - 1) / size,
            [&](std::int64_t tile, int) { body(tile * size, std::min(count, (tile + 1) * size)); });
}

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace pagoda
