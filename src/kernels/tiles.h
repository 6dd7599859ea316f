#pragma once
// for_tiles: the only way in which kernels spread work over the context's threads.
#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"

namespace pagoda {

inline std::int64_t num_threads(const KernelContext& context) {
  return context.pool == nullptr ? 1 : context.pool->num_threads();
}

// Calls body(tile, worker) for each tile; on the calling thread if there is no pool.
template <class Body>
void for_tiles(const KernelContext& context, std::int64_t num_tiles, const Body& body) {
  if (context.pool == nullptr || num_tiles <= 1) {
    for (std::int64_t tile = 0; tile < num_tiles; ++tile) body(tile, 0);
  } else {
    context.pool->parallel_for(num_tiles, body);
  }
}

// Calls body(first, last) over ranges of [0, count) of at least `grain` items each, or over all at once. Each
// of n threads gets an n-th of [0, count) in one piece, cut into several ranges so that other threads can
// help.
template <class Body>
void for_ranges(const KernelContext& context, std::int64_t count, std::int64_t grain, const Body& body) {
  const std::int64_t threads = num_threads(context);
  const std::int64_t fit = count / std::max<std::int64_t>(grain, 1);
  if (count == 0) return;
  if (fit <= 1 || threads == 1) return body(0, count);
  const std::int64_t parts = std::min(threads, fit), cuts = std::clamp<std::int64_t>(fit / parts, 1, 4);
  const std::int64_t ranges = parts * cuts;
  for_tiles(context, ranges, [&](std::int64_t tile, int) {
    const std::int64_t range = tile % parts * cuts + tile / parts;
    body(count * range / ranges, count * (range + 1) / ranges);
  });
}

// Rows pass through the products `at_once` at a time, and each thread has one contiguous piece of them.
// Returns the thread that has `row`.
inline std::int64_t thread_of_row(std::int64_t row, std::int64_t at_once, std::int64_t threads) {
  return row % at_once * threads / at_once;
}

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace pagoda
