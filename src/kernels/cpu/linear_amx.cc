// linear for CpuLevel::avx512 with AMX: multiplies bfloat16 weights, float codes converted to bfloat16, and
// int8 weights by integer rows. Packed weights and prepared rows have the layout of AMX tiles: a line of a
// weight tile holds pairs, or quads, of inputs of 16 outputs; a line of a row tile holds 64 bytes of one row.
// Sums stay in tiles over all inputs. In bfloat16, each 32 inputs of an output are added in two chains, even
// and odd inputs, whose sum is added to the output: the number of rows changes no bit. Integers have the same
// bits as with AVX-512.
#include "kernels/cpu/simd_avx512.h"
// After the lanes: the loops below are written in terms of them.
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/linear_inl.h"
// Must follow linear_inl.h.
#include "kernels/cpu/linear_amx_blocks_inl.h"

namespace pagoda::cpu {
namespace {

constexpr std::int64_t kTileRows = 16, kHighestPanel = 2 * kTileRows;

// Tiles 0 to 3 hold the sums of a panel's first 16 rows and of its other rows, by two strips; tiles 4 and 5
// hold these rows, 6 and 7 the strips' weights.
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
  static constexpr bool kWholeTiles = false;  // strips are not padded with zeros

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

// The sums of a panel and kMaxStrips strips, as tiles store them.
using PanelSums = float[kHighestPanel][kMaxStrips][16];

// A panel whose products are complete but not yet written to their destination. A few of its rows are written
// with each step of the next panel: while tiles multiply, the vector units are idle.
template <class Numbers>
class FinishedPanel {
 public:
  explicit FinishedPanel(const LinearTile& tile) : tile_(tile) {}

  // Call only after finish(). `sums` must stay valid until the next finish().
  void take(const PanelSums& sums, std::int64_t row, std::int64_t rows, std::int64_t strip, int strips) {
    sums_ = sums;
    strip_ = strip;
    row_ = row;
    left_ = rows;
    strips_ = strips;
  }
  std::int64_t rows() const { return left_; }
  [[gnu::always_inline]] void finish_rows(std::int64_t count) {
    if (strips_ == kMaxStrips) return finish_rows_of<kMaxStrips>(count);
    finish_rows_of<1>(count);
  }
  void finish() { finish_rows(left_); }

 private:
  template <int kCols>
  [[gnu::always_inline]] void finish_rows_of(std::int64_t count) {
    const LinearTile& t = tile_;
    const std::int64_t rows = left_ < count ? left_ : count;
    const std::byte* const strips = t.weights + strip_ * t.strip_bytes;
    const bool whole = strip_ + kCols < t.num_strips || t.last_columns == kStrip;
    const float(*sums)[kMaxStrips][16] = sums_;
    if (whole && !t.past_caches) {
      // Values common to all rows stay in registers.
      const std::int64_t column = strip_ * kStrip, strip_bytes = t.strip_bytes, stride = t.y_stride;
      const float* const bias = t.bias != nullptr ? t.bias + column : nullptr;
      const float* const scales = t.row_scales != nullptr ? t.row_scales + row_ : nullptr;
      const bool accumulate = t.accumulate;
      float* y = t.y + (row_ - t.first_row) * stride + column;
      for (std::int64_t r = 0; r < rows; ++r, y += stride) {
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) {
          F value = Numbers::sums(sums[r][c], strips + c * strip_bytes);
          if (scales != nullptr) value = mul(value, set1(scales[r]));
          if (bias != nullptr) value = add(value, load(bias + c * kStrip));
          if (accumulate) value = add(load(y + c * kStrip), value);
          simd::store(y + c * kStrip, value);
        }
      }
    } else {
      for (std::int64_t r = 0; r < rows; ++r) {
        F acc[1][kCols];
        for (int c = 0; c < kCols; ++c) acc[0][c] = Numbers::sums(sums[r][c], strips + c * t.strip_bytes);
        pagoda::cpu::finish(t, row_ + r, strip_, acc);
      }
    }
    sums_ += rows;
    row_ += rows;
    left_ -= rows;
  }

  const LinearTile& tile_;
  const float (*sums_)[kMaxStrips][16] = nullptr;
  std::int64_t row_ = 0, strip_ = 0, left_ = 0;
  int strips_ = 1;
};

// The panels of a tile times its strips. If several panels share the strips, the inputs of two strips are cut
// into parts that stay in the first-level cache; each part meets all panels, whose sums are kept in memory
// between parts, and rows bypass that cache (tileloaddt1). A single panel stays in the cache while the strips
// pass by.
template <class Numbers>
class AmxProducts {
 public:
  explicit AmxProducts(const LinearTile& tile)
      : t_(tile), sums_(reinterpret_cast<PanelSums*>(tile.sums)), finished_(tile) {}

  // Computes strip `strip`, or the pair starting there. next: weights to prefetch meanwhile.
  void run_strips(std::int64_t strip, bool pair, const std::byte* next, std::int64_t next_bytes,
                  LaterReads& later) {
    strip_ = strip;
    if (t_.last_panel - t_.first_panel == 1)
      return pair ? run_parts<kStrips, false>(next, next_bytes, later)
                  : run_parts<1, false>(next, next_bytes, later);
    pair ? run_parts<kStrips, true>(next, next_bytes, later) : run_parts<1, true>(next, next_bytes, later);
  }
  std::int64_t num_parts() const {
    return t_.last_panel - t_.first_panel == 1 ? 1 : (num_steps() + kPartSteps - 1) / kPartSteps;
  }
  void finish() { finished_.finish(); }

 private:
  static constexpr std::int64_t kPartSteps = 20;  // 40 KiB of two strips

  // A range of steps of kInputs inputs each.
  struct Part {
    std::int64_t first, end;
    bool is_first, is_last;
  };

  std::int64_t num_steps() const { return (t_.k + Numbers::kInputs - 1) / Numbers::kInputs; }

  template <int kCols, bool kManyPanels>
  void run_parts(const std::byte* next, std::int64_t next_bytes, LaterReads& later) {
    const std::int64_t steps = num_steps(), parts = num_parts();
    for (std::int64_t i = 0; i < parts; ++i) {
      const Part part = {.first = steps * i / parts,
                         .end = steps * (i + 1) / parts,
                         .is_first = i == 0,
                         .is_last = i + 1 == parts};
      const std::int64_t share = (next_bytes / parts + 63) / 64 * 64;
      std::int64_t panel = 0;
      for_panels(t_, part.end - part.first, next, share, later,
                 [&](std::int64_t row, std::int64_t rows, const std::byte* x, const Ahead& first) {
                   Ahead ahead = first;
                   const std::int64_t place = parts > 1 ? panel++ : (next_place_ ^= 1);
                   if (rows <= kTileRows)
                     run_panel<1, kCols, kManyPanels>(part, row, rows, x, sums_[place], ahead);
                   else
                     run_panel<2, kCols, kManyPanels>(part, row, rows, x, sums_[place], ahead);
                 });
      if (next != nullptr) next += share;
    }
  }

  // A panel with fewer rows than the tiles reads beyond its own rows and discards those sums. The last panel
  // has as many rows as the others. kHigh: tiles of rows.
  template <int kHigh, int kCols, bool kManyPanels>
  [[gnu::always_inline]] void run_panel(const Part& part, std::int64_t row, std::int64_t rows,
                                        const std::byte* x, PanelSums& sums, Ahead& ahead) {
    if (!kManyPanels)
      for (std::int64_t r = 0; r < rows; ++r) prefetch_results<1, kCols>(t_, row + r, strip_);
    part.is_first ? clear<kHigh, kCols>() : load<kHigh, kCols>(sums);
    const std::int64_t steps = part.end - part.first;
    const std::int64_t finished_rows = (finished_.rows() + steps - 1) / steps;
    const std::byte* const weights =
        t_.weights + strip_ * t_.strip_bytes + Numbers::kHeader + part.first * kTileBytes;
    const bool whole = Numbers::kWholeTiles || part.end * Numbers::kInputs <= t_.k;
    const std::int64_t whole_steps = whole ? steps : steps - 1;
    x += part.first * rows * 64;
    for (std::int64_t k = 0; k < whole_steps; ++k) {
      fetch<0>(ahead);
      multiply<kHigh, kCols, kManyPanels>(x + k * rows * 64, weights + k * kTileBytes, t_.strip_bytes);
      if (finished_rows > 0) finished_.finish_rows(finished_rows);
    }
    if (!whole)
      multiply_rest<kHigh, kCols, kManyPanels>(x + whole_steps * rows * 64,
                                               weights + whole_steps * kTileBytes);
    finished_.finish();
    store<kHigh, kCols>(sums);
    if (part.is_last) finished_.take(sums, row, rows, strip_, kCols);
  }

  // The inputs after the last whole step, for weights that are not padded with zeros.
  template <int kHigh, int kCols, bool kManyPanels>
  void multiply_rest(const std::byte* x, const std::byte* weights) {
    alignas(64) std::byte last[kCols][kTileBytes] = {};
    const std::int64_t bytes = (t_.k % Numbers::kInputs + 1) / 2 * 64;
    for (int c = 0; c < kCols; ++c)
      std::memcpy(last[c], weights + c * t_.strip_bytes, static_cast<std::size_t>(bytes));
    write_before_tiles();
    multiply<kHigh, kCols, kManyPanels>(x, last[0], kTileBytes);
  }

  template <int kHigh, int kCols, bool kManyPanels>
  [[gnu::always_inline]] void multiply(const std::byte* x, const std::byte* weights,
                                       std::int64_t strip_bytes) {
    if constexpr (kManyPanels) {
      _tile_stream_loadd(4, x, 64);
      _tile_loadd(6, weights, 64);
      if constexpr (kHigh == 2) _tile_stream_loadd(5, x + kTileBytes, 64);
      if constexpr (kCols == 2) _tile_loadd(7, weights + strip_bytes, 64);
    } else {
      _tile_loadd(4, x, 64);
      _tile_stream_loadd(6, weights, 64);
      if constexpr (kHigh == 2) _tile_loadd(5, x + kTileBytes, 64);
      if constexpr (kCols == 2) _tile_stream_loadd(7, weights + strip_bytes, 64);
    }
    Numbers::template add_products<kHigh, kCols>();
  }

  static constexpr std::int64_t kSumsStep = kMaxStrips * 64;  // distance between rows' sums
  template <int kHigh, int kCols>
  PAGODA_INLINE void clear() {
    _tile_zero(0);
    if constexpr (kHigh == 2) _tile_zero(2);
    if constexpr (kCols == 2) _tile_zero(1);
    if constexpr (kHigh == 2 && kCols == 2) _tile_zero(3);
  }
  template <int kHigh, int kCols>
  PAGODA_INLINE void load(const PanelSums& sums) {
    _tile_loadd(0, sums[0][0], kSumsStep);
    if constexpr (kHigh == 2) _tile_loadd(2, sums[kTileRows][0], kSumsStep);
    if constexpr (kCols == 2) _tile_loadd(1, sums[0][1], kSumsStep);
    if constexpr (kHigh == 2 && kCols == 2) _tile_loadd(3, sums[kTileRows][1], kSumsStep);
  }
  template <int kHigh, int kCols>
  PAGODA_INLINE void store(PanelSums& sums) {
    _tile_stored(0, sums[0][0], kSumsStep);
    if constexpr (kHigh == 2) _tile_stored(2, sums[kTileRows][0], kSumsStep);
    if constexpr (kCols == 2) _tile_stored(1, sums[0][1], kSumsStep);
    if constexpr (kHigh == 2 && kCols == 2) _tile_stored(3, sums[kTileRows][1], kSumsStep);
    write_before_tiles();
  }

  const LinearTile& t_;
  PanelSums* const sums_;
  FinishedPanel<Numbers> finished_;
  std::int64_t strip_ = 0, next_place_ = 0;
};

// Keeps the tiles configured during its lifetime.
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
  // clang-tidy confuses it with `next_weights`, which may be null.
  if (t.weights == nullptr) __builtin_unreachable();
  const TilesInUse tiles(t.panels);
  AmxProducts<Numbers> products(t);
  LaterReads later = later_reads(t, products.num_parts());
  for_strips(t, t.panels.two_strips, [&](std::int64_t strip, bool pair, std::int64_t bytes) {
    products.run_strips(strip, pair, weights_ahead(t, strip, bytes), bytes, later);
  });
  products.finish();
  if (t.past_caches) fence();
}

// Tiles treat denormal numbers as zeros, so vectors that add as tiles do must too.
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

// One row of 8-bit codes in float32, added in the order of tiles. Tiles are loaded from memory, whereas these
// codes, unpacked in registers, can stay there. Other codes are just as fast with tiles.
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

// Converts a strip of codes to bfloat16. Prefetches a few lines with each step, since the hardware prefetcher
// fetches too few.
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

// Codes are converted to bfloat16 a pair of strips at a time, in the second-level cache. Parts that fit into
// the first-level cache cost more: each switch from tiles to vectors takes about 800 cycles (measured).
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
  AmxProducts<Bf16Tiles> products(wide);
  LaterReads later = later_reads(wide, products.num_parts());
  for (std::int64_t strip = 0; strip < t.num_strips; strip += kStrips) {
    const std::int64_t count = t.num_strips - strip < kStrips ? t.num_strips - strip : kStrips;
    for (std::int64_t s = 0; s < count; ++s)
      widen_whole<kFormat>(t.weights + (strip + s) * t.strip_bytes, t.k, t.scratch + s * wide.strip_bytes);
    wide.num_strips = count;
    wide.last_columns = strip + count == t.num_strips ? t.last_columns : kStrip;
    write_before_tiles();
    products.run_strips(0, count == kStrips, nullptr, 0, later);
    products.finish();
    wide.y += kStrips * kStrip;
    if (wide.bias != nullptr) wide.bias += kStrips * kStrip;
  }
  if (t.past_caches) fence();
}

// For many rows; few rows unpack the weights of K types in registers.
template <PackedFormat kFormat>
void run_amx_blocks(const LinearTile& t) {
  if (!t.panels.two_strips) return run_tile<typename NarrowKernels<kFormat>::Few>(t);
  const TilesInUse tiles(t.panels);
  BlockTiles<kFormat>::run(t);
}

}  // namespace

const LinearKernels& LinearKernels::amx() {
  static const LinearKernels kernels = [] {
    LinearKernels all = avx512;
    all.tiles[static_cast<std::size_t>(PackedFormat::bf16)] = run_amx<Bf16Tiles>;
    all.tiles[static_cast<std::size_t>(PackedFormat::i8)] = run_amx<IntegerTiles>;
    all.tiles[static_cast<std::size_t>(PackedFormat::e4m3)] = run_amx_codes<PackedFormat::e4m3>;
    all.tiles[static_cast<std::size_t>(PackedFormat::nf4)] = run_amx_codes<PackedFormat::nf4>;
    all.tiles[static_cast<std::size_t>(PackedFormat::nvfp4)] = run_amx_codes<PackedFormat::nvfp4>;
    all.tiles[static_cast<std::size_t>(PackedFormat::q2_k)] = run_amx_blocks<PackedFormat::q2_k>;
    all.tiles[static_cast<std::size_t>(PackedFormat::q3_k)] = run_amx_blocks<PackedFormat::q3_k>;
    all.tiles[static_cast<std::size_t>(PackedFormat::q4_k)] = run_amx_blocks<PackedFormat::q4_k>;
    all.tiles[static_cast<std::size_t>(PackedFormat::q5_k)] = run_amx_blocks<PackedFormat::q5_k>;
    all.tiles[static_cast<std::size_t>(PackedFormat::q6_k)] = run_amx_blocks<PackedFormat::q6_k>;
    all.tiles[static_cast<std::size_t>(PackedFormat::iq4_xs)] = run_amx_blocks<PackedFormat::iq4_xs>;
    all.tiles[static_cast<std::size_t>(PackedFormat::iq3_xxs)] = run_amx_blocks<PackedFormat::iq3_xxs>;
    all.tiles[static_cast<std::size_t>(PackedFormat::iq3_s)] = run_amx_blocks<PackedFormat::iq3_s>;
    all.tiles[static_cast<std::size_t>(PackedFormat::iq2)] = run_amx_blocks<PackedFormat::iq2>;
    all.tiles[static_cast<std::size_t>(PackedFormat::iq1)] = run_amx_blocks<PackedFormat::iq1>;
    all.tiles[static_cast<std::size_t>(PackedFormat::iq2_xxs_points)] =
        run_amx_blocks<PackedFormat::iq2_xxs_points>;
    all.tiles[static_cast<std::size_t>(PackedFormat::iq2_xs_points)] =
        run_amx_blocks<PackedFormat::iq2_xs_points>;
    all.tiles[static_cast<std::size_t>(PackedFormat::iq3_xxs_points)] =
        run_amx_blocks<PackedFormat::iq3_xxs_points>;
    all.bf16_rows = all.integer_rows = all.block_rows = kHighestPanel;
    all.panel_sum_bytes = sizeof(PanelSums);
    all.widens_whole_strips = true;
    return all;
  }();
  return kernels;
}

}  // namespace pagoda::cpu
