#pragma once
// One tile of a product: some panels of prepared rows times some strips of one run of weights, and what
// is done with the products. Not here: how rows and strips are cut and handed out (linear.cc,
// grouped_pair.cc). Threads: tiles of one product may run at the same time, each with its own thread number.
#include "kernels/cpu/largest_of_rows.h"
#include "kernels/cpu/linear_rows.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/low_rank.h"
#include "kernels/read_ahead.h"

namespace pagoda::cpu {

// The destination of the products: y, the input of the next matrix, or none.
struct Products {
  float* y = nullptr;
  const PreparedRows* next = nullptr;
  LargestOfRows* largest = nullptr;
  const RowAddends* addends = nullptr;  // null: none
  LinearOutput output = {};
};

constexpr std::int64_t kTileRowBytes = std::int64_t{384} << 10;  // prepared rows of a tile

// Strips whose results are whole groups of 64: what is cut between them can go into prepared rows.
std::int64_t group_strips(const PackedLinear::Storage& weight);

// How far ahead of itself a tile of these rows fetches weights; 0: not at all.
std::int64_t bytes_ahead(const KernelContext& context, PackedFormat format, const Panels& panels);

struct RunTile {
  const std::byte* x = nullptr;  // all panels' input
  std::int64_t strip = 0, num_strips = 0;
  std::int64_t first_panel = 0, last_panel = 0;
  const std::byte* next_weights = nullptr;  // the thread's next weights, most likely, or null
  bool past_caches = false;
  const ReadAhead* read_ahead = nullptr;
  ReadAhead::Range later = {};
};
void multiply_tile(const KernelContext& context, int thread, const PackedLinear::Storage& weight,
                   const LinearSegment& run, const Panels& panels, const RunTile& tile, const Products& out);

}  // namespace pagoda::cpu
