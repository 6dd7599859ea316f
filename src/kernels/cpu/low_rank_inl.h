// The two products of low-rank adapters over the sixteen lanes of simd_*.h. A register tile holds the sums of
// some rows and ranks, or of some strips of outputs; each sum is a separate chain, whatever its tile.
#include "kernels/cpu/low_rank.h"
#include "kernels/cpu/unroll.h"

namespace pagoda::cpu {
namespace {

using namespace simd;  // NOLINT: this file is the body of one translation unit

template <bool kBfloat16>
PAGODA_INLINE F load_factors(const std::byte* p) {
  if constexpr (kBfloat16) return load_bf16(p);
  return load(reinterpret_cast<const float*>(p));
}

template <int kRows, int kCount>
PAGODA_INLINE void clear(F (&sums)[kRows][kCount]) {
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PAGODA_UNROLL
    for (int j = 0; j < kCount; ++j) sums[r][j] = zero();
  }
}
// Multiplies sixteen factors, the sixteen `step` bytes after them, and so on, by each x.
template <bool kBfloat16, int kRows, int kCount>
PAGODA_INLINE void add_products(const std::byte* factors, std::int64_t step, const F (&x)[kRows],
                                F (&sums)[kRows][kCount]) {
  PAGODA_UNROLL
  for (int j = 0; j < kCount; ++j) {
    const F w = load_factors<kBfloat16>(factors + j * step);
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r][j] = fma(w, x[r], sums[r][j]);
  }
}

template <bool kBfloat16, int kRows, int kRanks>
void dot_tile(const LowRankDots& args, std::int64_t row, std::int32_t rank) {
  constexpr std::int64_t kBytes = kBfloat16 ? 2 : 4;
  const std::int64_t stride = args.width * kBytes;
  const std::byte* const a = args.rows + rank * stride;
  F sums[kRows][kRanks];
  clear(sums);
  for (std::int64_t i = 0; i < args.width; i += 16) {
    F x[kRows];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) x[r] = load(args.x[row + r] + i);
    add_products<kBfloat16>(a + i * kBytes, stride, x, sums);
  }
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PAGODA_UNROLL
    for (int j = 0; j < kRanks; ++j) args.u[row + r][rank + j] = reduce_add(sums[r][j]);
  }
}

// Tiles that stay in registers: sixteen sums if the lanes fit one register, eight if they need two.
constexpr bool kWideTiles = kF32Rows > 6;

template <bool kBfloat16, int kRows>
void dot_rows(const LowRankDots& args, std::int64_t row) {
  constexpr int kRanks = kRows == 1 ? (kWideTiles ? 8 : 4) : kWideTiles ? 4 : 2;
  std::int32_t rank = 0;
  for (; rank + kRanks <= args.count; rank += kRanks) dot_tile<kBfloat16, kRows, kRanks>(args, row, rank);
  for (; rank < args.count; ++rank) dot_tile<kBfloat16, kRows, 1>(args, row, rank);
}

template <bool kBfloat16>
void dot_all(const LowRankDots& args) {
  constexpr int kRows = kWideTiles ? 4 : 2;
  std::int64_t row = 0;
  for (; row + kRows <= args.num_x; row += kRows) dot_rows<kBfloat16, kRows>(args, row);
  for (; row < args.num_x; ++row) dot_rows<kBfloat16, 1>(args, row);
}

void low_rank_dots(const LowRankDots& args) { args.bfloat16 ? dot_all<true>(args) : dot_all<false>(args); }

template <bool kBfloat16, int kRows, int kStrips>
void add_tile(const LowRankSum& args, std::int64_t row, std::int64_t strip) {
  constexpr std::int64_t kLine = 16 * (kBfloat16 ? 2 : 4);
  const std::int64_t strip_bytes = args.rank * kLine;
  const std::byte* b = args.strips + strip * strip_bytes;
  F sums[kRows][kStrips];
  clear(sums);
  for (std::int32_t i = 0; i < args.rank; ++i, b += kLine) {
    F u[kRows];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) u[r] = set1(args.u[row + r][i]);
    add_products<kBfloat16>(b, strip_bytes, u, sums);
  }
  const F scale = set1(args.scale);
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PAGODA_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      float* const y = args.y[row + r] + (strip + s) * args.y_step;
      store(y, fma(sums[r][s], scale, load(y)));
    }
  }
}

template <bool kBfloat16, int kRows>
void add_rows(const LowRankSum& args, std::int64_t row) {
  constexpr int kStrips = kRows == 1 || kWideTiles ? 4 : 2;
  std::int64_t strip = 0;
  for (; strip + kStrips <= args.num_strips; strip += kStrips)
    add_tile<kBfloat16, kRows, kStrips>(args, row, strip);
  for (; strip < args.num_strips; ++strip) add_tile<kBfloat16, kRows, 1>(args, row, strip);
}

template <bool kBfloat16>
void add_all(const LowRankSum& args) {
  constexpr int kRows = kWideTiles ? 4 : 2;
  std::int64_t row = 0;
  for (; row + kRows <= args.num_rows; row += kRows) add_rows<kBfloat16, kRows>(args, row);
  for (; row < args.num_rows; ++row) add_rows<kBfloat16, 1>(args, row);
}

void add_low_rank(const LowRankSum& args) { args.bfloat16 ? add_all<true>(args) : add_all<false>(args); }

constexpr LowRankKernels kLowRankKernels = {.dots = low_rank_dots, .add = add_low_rank};

}  // namespace
}  // namespace pagoda::cpu
