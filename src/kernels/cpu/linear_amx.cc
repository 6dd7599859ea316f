// linear for CpuLevel::avx512 where AMX multiplies bfloat16 weights, and int8 ones by rows of integers.
// Packed weights and prepared rows lie as AMX's tiles do: a line of a tile of weights is 16 outputs' pairs,
// or quads, of inputs, of one of rows the 64 bytes of a row. Sums stay in tiles over all inputs. In bfloat16
// each 32 inputs of an output are added in two chains, those of even and those of odd inputs, whose sum is
// added to the output's: the number of rows changes no bit. Integers have AVX-512's bits.
#if defined(__x86_64__)
#include "kernels/cpu/simd_avx512.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/linear_inl.h"

namespace pagoda::cpu {
namespace {

constexpr std::int64_t kTileRows = 16, kHighestPanel = 2 * kTileRows;

// Tiles 0 to 3 hold sums, those of a panel's first 16 rows and then of the others by two strips; 4 and 5
// these rows, 6 and 7 the strips' weights.
struct ProductTileShapes : TileShapes {
  explicit ProductTileShapes(std::int64_t height) {
    const std::int64_t upper = height < kTileRows ? height : kTileRows;
    for (const int tile : {0, 1, 4}) set(tile, upper);
    for (const int tile : {2, 3, 5}) set(tile, height - upper);
    for (const int tile : {6, 7}) set(tile, kTileRows);
  }
};

struct Bf16Tiles {
  static constexpr int kInputs = 32;
  static constexpr std::int64_t kHeader = 0;
  static constexpr bool kWholeTiles = false;  // no strip has zeros behind it

  template <int kHigh, int kCols>
  PAGODA_INLINE void add_products() {
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kHigh == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kCols == 2) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kHigh == 2 && kCols == 2) _tile_dpbf16ps(3, 5, 7);
  }
  PAGODA_INLINE F sums(const float* of_row, const std::byte*) { return load(of_row); }
};

struct IntegerTiles {
  static constexpr int kInputs = 64;
  static constexpr std::int64_t kHeader = panel_layout(PackedFormat::i8).header_bytes;
  static constexpr bool kWholeTiles = true;

  template <int kHigh, int kCols>
  PAGODA_INLINE void add_products() {
    _tile_dpbusd(0, 4, 6);
    if constexpr (kHigh == 2) _tile_dpbusd(2, 5, 6);
    if constexpr (kCols == 2) _tile_dpbusd(1, 4, 7);
    if constexpr (kHigh == 2 && kCols == 2) _tile_dpbusd(3, 5, 7);
  }
  PAGODA_INLINE F sums(const float* of_row, const std::byte* strip) {
    return scaled_sums(add(_mm512_load_si512(of_row), first_sums(strip + kCorrections)), strip);
  }
};

template <class Numbers>
struct AmxKernel {
  static constexpr int kMaxRows = kAnyRows, kStreamHeight = kAnyRows;
  static constexpr bool kTwoStrips = true;
  static constexpr int kStep = Numbers::kInputs;

  template <int kCols>
  static void run(const LinearTile& t, std::int64_t row, std::int64_t rows, const std::byte* panel,
                  std::int64_t strip, const Ahead& ahead) {
    static_assert(kCols <= 2);
    if (rows <= kTileRows) return run_tiles<1, kCols>(t, row, rows, panel, strip, ahead);
    run_tiles<2, kCols>(t, row, rows, panel, strip, ahead);
  }

 private:
  // A panel of fewer rows than the tiles have reads what lies behind its own, and drops the sums. The last
  // panel has as many.
  template <int kHigh, int kCols>
  PAGODA_INLINE void multiply(const std::byte* x, const std::byte* weights, std::int64_t strip_bytes) {
    _tile_loadd(4, x, 64);
    _tile_loadd(6, weights, 64);
    if constexpr (kHigh == 2) _tile_loadd(5, x + kTileBytes, 64);
    if constexpr (kCols == 2) _tile_loadd(7, weights + strip_bytes, 64);
    Numbers::template add_products<kHigh, kCols>();
  }

  // kHigh: tiles of rows.
  template <int kHigh, int kCols>
  static void run_tiles(const LinearTile& t, std::int64_t row, std::int64_t rows, const std::byte* panel,
                        std::int64_t strip, const Ahead& first) {
    Ahead ahead = first;
    for (std::int64_t r = 0; r < rows; ++r) prefetch_results<1, kCols>(t, row + r, strip);
    const std::byte* x = panel;
    const std::byte* const strips = t.weights + strip * t.strip_bytes;
    const std::byte* weights = strips + Numbers::kHeader;
    _tile_zero(0);
    if constexpr (kHigh == 2) _tile_zero(2);
    if constexpr (kCols == 2) _tile_zero(1);
    if constexpr (kHigh == 2 && kCols == 2) _tile_zero(3);
    const std::int64_t whole = Numbers::kWholeTiles ? t.k : t.k / kStep * kStep;
    std::int64_t k = 0;
    for (; k < whole; k += kStep, x += rows * 64, weights += kTileBytes) {
      fetch<0>(ahead);
      multiply<kHigh, kCols>(x, weights, t.strip_bytes);
    }
    if (k < t.k) {
      fetch<0>(ahead);
      alignas(64) std::byte last[kCols][kTileBytes] = {};
      for (int c = 0; c < kCols; ++c)
        std::memcpy(last[c], weights + c * t.strip_bytes, static_cast<std::size_t>((t.k - k + 1) / 2 * 64));
      write_before_tiles();
      multiply<kHigh, kCols>(x, last[0], kTileBytes);
    }
    alignas(64) float sums[kHigh * kTileRows][kCols][16];
    _tile_stored(0, sums[0][0], kCols * 64);
    if constexpr (kHigh == 2) _tile_stored(2, sums[kTileRows][0], kCols * 64);
    if constexpr (kCols == 2) _tile_stored(1, sums[0][1], kCols * 64);
    if constexpr (kHigh == 2 && kCols == 2) _tile_stored(3, sums[kTileRows][1], kCols * 64);
    for (std::int64_t r = 0; r < rows; ++r) {
      F acc[1][kCols];
      for (int c = 0; c < kCols; ++c) acc[0][c] = Numbers::sums(sums[r][c], strips + c * t.strip_bytes);
      finish(t, row + r, strip, acc);
    }
  }
};

template <class Numbers>
void run_amx(const LinearTile& t) {
  const ProductTileShapes shapes((t.panels.num_rows + t.panels.count - 1) / t.panels.count);
  write_before_tiles();
  _tile_loadconfig(&shapes);
  run_tile<AmxKernel<Numbers>>(t);
  _tile_release();
}

}  // namespace

const LinearKernels& linear_kernels_amx() {
  static const LinearKernels kernels = [] {
    LinearKernels all = linear_kernels_avx512();
    all.tiles[static_cast<std::size_t>(PackedFormat::bf16)] = run_amx<Bf16Tiles>;
    all.tiles[static_cast<std::size_t>(PackedFormat::i8)] = run_amx<IntegerTiles>;
    all.integer_rows = kHighestPanel;
    return all;
  }();
  return kernels;
}

}  // namespace pagoda::cpu
#endif
