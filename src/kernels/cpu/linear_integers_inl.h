// Products of integer rows with int8 weights that have one scale per output (PackedFormat::i8). Sums are
// integers over all inputs, so every instruction set, and every order, gives the same bits.
#include "kernels/cpu/linear_products_inl.h"

namespace pagoda::cpu {
namespace {

// A strip begins with the outputs' scales, followed by the data for first_sums.
constexpr std::int64_t kCorrections = 64;

// The products of one row and one strip, scaled per output.
PAGODA_INLINE F scaled_sums(const I& sums, const std::byte* strip) {
  return mul(to_float(sums), load(reinterpret_cast<const float*>(strip)));
}

struct IntegerKernel {
  static constexpr int kMaxRows = kIntegerRows, kStreamHeight = kIntegerRows;
  static constexpr bool kTwoStrips = true;
  static constexpr int kFetchedStrips = 1;
  static constexpr int kStep = 64;

  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    constexpr int kOneByOne = kFetch && kCols == 1 ? 16 : 0;
    constexpr std::int64_t kHeader = panel_layout(PackedFormat::i8).header_bytes;
    Ahead ahead = first;
    prefetch_results<kRows, kCols>(t, row, strip);
    const std::byte* const strips = t.weights + strip * t.strip_bytes;
    const std::byte* w = strips + kHeader;
    const auto* x = reinterpret_cast<const QuadInput*>(panel);
    I sum[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) sum[r][c] = first_sums(strips + c * t.strip_bytes + kCorrections);
    for (std::int64_t begin = 0; begin < t.k; begin += kStep, x += kRows * kStep, w += 16 * 64) {
      fetch<kOneByOne>(ahead);
      PAGODA_NO_UNROLL
      for (int quad = 0; quad < 16; ++quad) {
        fetch_one<kOneByOne, kRows>(ahead, quad);
        Quads weights[kCols];
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) weights[c] = load_signed_quads(w + c * t.strip_bytes + quad * 64);
        PAGODA_UNROLL
        for (int part = 0; part < kQuadParts; ++part) PAGODA_UNROLL
        for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c)
          sum[r][c] =
              dot_signed_part(sum[r][c], weights[c].part[part], x + r * 64 + 4 * quad + part * kPartInputs);
      }
    }
    F acc[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) acc[r][c] = scaled_sums(sum[r][c], strips + c * t.strip_bytes);
    finish(t, row, strip, acc);
  }
};

}  // namespace
}  // namespace pagoda::cpu
