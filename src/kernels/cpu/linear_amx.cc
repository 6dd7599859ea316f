// linear for CpuLevel::avx512 where AMX multiplies bfloat16 weights, codes of floats that become bfloat16,
// and int8 weights by rows of integers. Packed weights and prepared rows lie as AMX's tiles do: a line of a
// tile of weights is 16 outputs' pairs, or quads, of inputs, of one of rows the 64 bytes of a row. Sums stay
// in tiles over all inputs. In bfloat16 each 32 inputs of an output are added in two chains, those of even
// and those of odd inputs, whose sum is added to the output's: the number of rows changes no bit. Integers
// have AVX-512's bits.
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

  template <int kHigh, int kCols>
  PAGODA_INLINE void add_inputs(const std::byte* x, std::int64_t rows, const std::byte* weights,
                                std::int64_t strip_bytes, std::int64_t count, Ahead& ahead) {
    for (std::int64_t k = 0; k < count; k += kStep, x += rows * 64, weights += kTileBytes) {
      fetch<0>(ahead);
      multiply<kHigh, kCols>(x, weights, strip_bytes);
    }
  }

  template <int kHigh, int kCols>
  static void add_all_inputs(const LinearTile& t, const std::byte* x, std::int64_t rows,
                             const std::byte* strips, Ahead& ahead) {
    const std::int64_t whole = Numbers::kWholeTiles ? t.k : t.k / kStep * kStep;
    const std::byte* const weights = strips + Numbers::kHeader;
    add_inputs<kHigh, kCols>(x, rows, weights, t.strip_bytes, whole, ahead);
    if (whole == t.k) return;
    alignas(64) std::byte last[kCols][kTileBytes] = {};
    for (int c = 0; c < kCols; ++c)
      std::memcpy(last[c], weights + c * t.strip_bytes + whole / kStep * kTileBytes,
                  static_cast<std::size_t>((t.k - whole + 1) / 2 * 64));
    write_before_tiles();
    add_inputs<kHigh, kCols>(x + whole / kStep * rows * 64, rows, last[0], kTileBytes, kStep, ahead);
  }

  // kHigh: tiles of rows.
  template <int kHigh, int kCols>
  static void run_tiles(const LinearTile& t, std::int64_t row, std::int64_t rows, const std::byte* panel,
                        std::int64_t strip, const Ahead& first) {
    Ahead ahead = first;
    for (std::int64_t r = 0; r < rows; ++r) prefetch_results<1, kCols>(t, row + r, strip);
    const std::byte* const strips = t.weights + strip * t.strip_bytes;
    _tile_zero(0);
    if constexpr (kHigh == 2) _tile_zero(2);
    if constexpr (kCols == 2) _tile_zero(1);
    if constexpr (kHigh == 2 && kCols == 2) _tile_zero(3);
    add_all_inputs<kHigh, kCols>(t, panel, rows, strips, ahead);
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

// Tiles have their shapes as long as it lives.
class TilesInUse {
 public:
  explicit TilesInUse(const Panels& panels) {
    const ProductTileShapes shapes((panels.num_rows + panels.count - 1) / panels.count);
    write_before_tiles();
    _tile_loadconfig(&shapes);
  }
  ~TilesInUse() { _tile_release(); }
  TilesInUse(const TilesInUse&) = delete;
};

template <class Numbers>
void run_amx(const LinearTile& t) {
  // clang-tidy takes it for `next_weights`, which may be null.
  if (t.weights == nullptr) __builtin_unreachable();
  const TilesInUse tiles(t.panels);
  run_tile<AmxKernel<Numbers>>(t);
}

// Denormal numbers are zeros to the tiles, so they are to vectors that add as tiles do.
class DenormalsAreZero {
 public:
  DenormalsAreZero() : before_(_mm_getcsr()) {
    constexpr unsigned kInputs = 0x40, kResults = 0x8000;
    _mm_setcsr(before_ | kInputs | kResults);
  }
  ~DenormalsAreZero() { _mm_setcsr(before_); }
  DenormalsAreZero(const DenormalsAreZero&) = delete;

 private:
  unsigned before_;
};

// One row of 8-bit codes in float32, added in the order of tiles. Tiles are read from memory, so codes that
// are unpacked in registers can stay there. Others are as fast by tiles.
template <int kRows>
struct TileOrderSums {
  using Input = float;
  PAGODA_INLINE void begin_step(TileOrderSums& to) {
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) to.even[r] = to.odd[r] = zero();
  }
  PAGODA_INLINE void add_pair(TileOrderSums& to, const Pairs& weights, const float* x) {
    const auto words = (__m512i)weights;
    const F w_even = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
    const F w_odd =
        _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      to.even[r] = fma(set1(x[32 * r]), w_even, to.even[r]);
      to.odd[r] = fma(set1(x[32 * r + 1]), w_odd, to.odd[r]);
    }
  }
  PAGODA_INLINE void end_step(TileOrderSums& to) {
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) to.acc[r][0] = add(to.acc[r][0], add(to.even[r], to.odd[r]));
  }

  F acc[kRows][1], even[kRows], odd[kRows];
};
template <PackedFormat kFormat>
using OneRowKernel = CodeRows<kFormat, TileOrderSums, 1>;

template <PackedFormat kFormat>
void run_one_row(const LinearTile& t) {
  LinearTile floats = t;
  floats.x = t.scratch;
  auto* const out = reinterpret_cast<float*>(t.scratch);
  for (std::int64_t i = 0; i < t.panels.num_rows * t.k; i += 16) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(t.x + 2 * i));
    store(out + i, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(pairs), 16)));
  }
  run_tile<OneRowKernel<kFormat>>(floats);
}

// A strip of codes as bfloat16. A few lines are fetched ahead with each step: the processor foresees too few.
template <PackedFormat kFormat>
void widen_whole(const std::byte* strip, std::int64_t k, std::byte* out) {
  constexpr std::int64_t kStep = 32, kAhead = 4096;
  constexpr PanelLayout kPanel = panel_layout(kFormat);
  for (std::int64_t begin = 0; begin < k; begin += kStep) {
    const std::byte* const ahead = strip + begin * kPanel.block_bytes / kPanel.block_inputs + kAhead;
    for (int line = 0; line <= kPanel.code_bits; ++line) prefetch_far(ahead + 64 * line);
    unpack_strip<kFormat>(strip, begin, kStep, out + begin * 2 * kStrip);
  }
}

// Codes become bfloat16 a pair of strips at a time, in the second-level cache. Parts that fit the first-level
// cache cost more: each change from tiles to vectors takes some 800 cycles (measured).
template <PackedFormat kFormat>
void run_amx_codes(const LinearTile& t) {
  const DenormalsAreZero as_in_tiles;
  if constexpr (panel_layout(kFormat).code_bits == 8) {
    if (t.panels.num_rows == 1) return run_one_row<kFormat>(t);
  }
  const TilesInUse tiles(t.panels);
  LinearTile wide = t;
  wide.weights = t.scratch;
  wide.strip_bytes = strip_bytes(PackedFormat::bf16, t.k);
  wide.panels.two_strips = true;
  LaterReads later = later_reads(wide, 1);
  for (std::int64_t strip = 0; strip < t.num_strips; strip += kStrips) {
    const std::int64_t count = t.num_strips - strip < kStrips ? t.num_strips - strip : kStrips;
    for (std::int64_t s = 0; s < count; ++s)
      widen_whole<kFormat>(t.weights + (strip + s) * t.strip_bytes, t.k, t.scratch + s * wide.strip_bytes);
    wide.num_strips = count;
    wide.last_columns = strip + count == t.num_strips ? t.last_columns : kStrip;
    write_before_tiles();
    run_strips<AmxKernel<Bf16Tiles>>(wide, 0, count == kStrips, nullptr, 0, later);
    wide.y += kStrips * kStrip;
    if (wide.bias != nullptr) wide.bias += kStrips * kStrip;
  }
  if (t.past_caches) fence();
}

}  // namespace

const LinearKernels& linear_kernels_amx() {
  static const LinearKernels kernels = [] {
    LinearKernels all = linear_kernels_avx512();
    all.tiles[static_cast<std::size_t>(PackedFormat::bf16)] = run_amx<Bf16Tiles>;
    all.tiles[static_cast<std::size_t>(PackedFormat::i8)] = run_amx<IntegerTiles>;
    all.tiles[static_cast<std::size_t>(PackedFormat::e4m3)] = run_amx_codes<PackedFormat::e4m3>;
    all.tiles[static_cast<std::size_t>(PackedFormat::nf4)] = run_amx_codes<PackedFormat::nf4>;
    all.tiles[static_cast<std::size_t>(PackedFormat::nvfp4)] = run_amx_codes<PackedFormat::nvfp4>;
    all.bf16_rows = all.integer_rows = kHighestPanel;
    all.widens_whole_strips = true;
    return all;
  }();
  return kernels;
}

}  // namespace pagoda::cpu
#endif
