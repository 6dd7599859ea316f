// linear for CpuLevel::avx512 where AMX multiplies bfloat16 weights. Packed weights and prepared rows lie as
// AMX's tiles do: 32 inputs of a strip are 16 pairs x 16 outputs, those of a panel's rows a line each. Sums
// stay in tiles over all inputs. Each 32 inputs of an output are added in two chains, those of even and those
// of odd inputs, whose sum is added to the output's: the number of rows changes no bit.
#if defined(__x86_64__)
#include <atomic>

#include "kernels/cpu/simd_avx512.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/linear_inl.h"

namespace pagoda::cpu {
namespace {

constexpr std::int64_t kStepInputs = 32, kWeightTileBytes = 1024;

// Instructions on tiles read what is written before: GCC's intrinsics do not tell the compiler so.
PAGODA_INLINE void write_before_tiles() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// The operand of ldtilecfg. Tiles 0 and 1 hold sums, 4 rows, 6 and 7 weights.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  explicit TileShapes(std::int64_t height) {
    for (int tile = 0; tile < 8; ++tile) {
      row_bytes[tile] = 64;
      rows[tile] = static_cast<std::uint8_t>(tile < 6 ? height : 16);
    }
  }
};

struct AmxKernel {
  static constexpr int kMaxRows = kBf16Rows, kStreamHeight = kBf16Rows;
  static constexpr bool kTwoStrips = true;
  static constexpr int kStep = kStepInputs;
  static_assert(kBf16Rows <= 16);

  // A panel of fewer rows than the tiles have reads what lies behind its own, and drops the sums.
  template <int kCols>
  PAGODA_INLINE void multiply(const std::byte* x, const std::byte* weights, std::int64_t strip_bytes) {
    _tile_loadd(4, x, 64);
    _tile_loadd(6, weights, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kCols == 2) {
      _tile_loadd(7, weights + strip_bytes, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
  }

  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    static_assert(kCols <= 2);
    Ahead ahead = first;
    prefetch_results<kRows, kCols>(t, row, strip);
    const std::byte* x = panel;
    const std::byte* weights = t.weights + strip * t.strip_bytes;
    _tile_zero(0);
    if constexpr (kCols == 2) _tile_zero(1);
    std::int64_t k = 0;
    for (; k + kStepInputs <= t.k; k += kStepInputs, x += kRows * 64, weights += kWeightTileBytes) {
      fetch<0>(ahead);
      multiply<kCols>(x, weights, t.strip_bytes);
    }
    if (k < t.k) {  // no strip has zeros behind it
      fetch<0>(ahead);
      alignas(64) std::byte last[kCols][kWeightTileBytes] = {};
      for (int c = 0; c < kCols; ++c)
        std::memcpy(last[c], weights + c * t.strip_bytes, static_cast<std::size_t>((t.k - k + 1) / 2 * 64));
      write_before_tiles();
      multiply<kCols>(x, last[0], kWeightTileBytes);
    }
    alignas(64) float sums[kCols][16][16];
    _tile_stored(0, sums[0], 64);
    if constexpr (kCols == 2) _tile_stored(1, sums[1], 64);
    F acc[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) acc[r][c] = load(sums[c][r]);
    finish(t, row, strip, acc);
  }
};

void run_amx(const LinearTile& t) {
  const TileShapes shapes((t.panels.num_rows + t.panels.count - 1) / t.panels.count);
  write_before_tiles();
  _tile_loadconfig(&shapes);
  run_tile<AmxKernel>(t);
  _tile_release();
}

}  // namespace

const LinearKernels& linear_kernels_amx() {
  static const LinearKernels kernels = [] {
    LinearKernels all = linear_kernels_avx512();
    all.tiles[static_cast<std::size_t>(PackedFormat::bf16)] = run_amx;
    return all;
  }();
  return kernels;
}

}  // namespace pagoda::cpu
#endif
