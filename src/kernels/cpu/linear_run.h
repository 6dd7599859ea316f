#pragma once
// One tile of a product: some panels of prepared rows times some strips of one run of weights, and the
// handling of the results. Not here: how rows and strips are cut and distributed (linear.cc,
// grouped_pair.cc). Threads: tiles of one product may run concurrently, each with its own thread number.
#include "kernels/cpu/largest_of_rows.h"
#include "kernels/cpu/linear_rows.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/low_rank.h"
#include "kernels/read_ahead.h"

namespace pagoda::cpu {

// The destination of the products: y, the input of the next matrix, or neither.
struct Products {
  float* y = nullptr;
  const PreparedRows* next = nullptr;
  LargestOfRows* largest = nullptr;
  const RowAddends* addends = nullptr;  // null for none
  LinearOutput output = {};
};

constexpr std::int64_t kTileRowBytes = std::int64_t{384} << 10;  // prepared rows per tile

// The number of strips whose results form whole groups of 64: cutting at such boundaries allows writing into
// prepared rows.
std::int64_t group_strips(const PackedLinear::Storage& weight);

// The distance, in bytes, at which a tile of these rows prefetches weights; 0: no prefetch.
std::int64_t bytes_ahead(const KernelContext& context, PackedFormat format, const Panels& panels);

struct RunTile {
  const std::byte* x = nullptr;  // all panels' input
  std::int64_t strip = 0, num_strips = 0;
  std::int64_t first_panel = 0, last_panel = 0;
  const std::byte* next_weights = nullptr;  // the thread's probable next weights, or null
  bool past_caches = false;
  const ReadAhead* read_ahead = nullptr;
  ReadAhead::Range later = {};
};
void multiply_tile(const KernelContext& context, int thread, const PackedLinear::Storage& weight,
                   const LinearSegment& run, const Panels& panels, const RunTile& tile, const Products& out);

}  // namespace pagoda::cpu
