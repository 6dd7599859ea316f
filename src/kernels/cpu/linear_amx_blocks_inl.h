#pragma once
// Products of many rows with the K types by AMX; sums stay in tiles over the 256 inputs of a block. A number
// times its scale takes up to 13 bits, hence two bytes and two tile products, which add up to the same
// integer sum as in linear_blocks_inl.h. The bits are the same.
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/linear_points_inl.h"

namespace pagoda::cpu {
namespace {

// 256 inputs of a strip as two operands per number and scale: sum = (upper << kShift) + lower.
struct ScaledNumbers {
  alignas(64) std::byte upper[4][kTileBytes], lower[4][kTileBytes];
};
// The sums of a panel's rows.
struct TileSums {
  alignas(64) std::int32_t upper[32][16], lower[32][16];
};

template <PackedFormat kFormat>
struct BlockTiles {
  static constexpr PanelLayout kPanel = panel_layout(kFormat);
  // Numbers of types with minima are unsigned, and so are their scales: at most 31 times the upper or the
  // lower three bits of 63 fits into a byte. One 16-bit multiplication makes two such bytes, since they do
  // not overlap. Signed products are split into their two bytes.
  static constexpr bool kSigned = !kPanel.minima;
  static constexpr int kShift = kSigned ? 8 : 3;
  static_assert(kSigned || kPanel.bits <= 5);

  struct Scales {
    W first, second;  // factors of the upper and the lower product; signed: only `first`, 256 times the scale
  };
  PAGODA_INLINE Scales scales(const std::byte* block, int group) {
    const W both = _mm512_and_si512(scale_of<kFormat>(block, group), _mm512_set1_epi32(0xffff));
    const W twice = _mm512_or_si512(both, _mm512_slli_epi32(both, 16));
    if constexpr (kSigned) return {_mm512_slli_epi16(twice, 8), izero()};
    return {_mm512_srli_epi16(twice, 3), _mm512_and_si512(twice, _mm512_set1_epi16(7))};
  }

  PAGODA_INLINE void put(W numbers, const Scales& scales, std::byte* upper, std::byte* lower) {
    if constexpr (!kSigned) {
      store_weights(upper, _mm512_mullo_epi16(numbers, scales.first));
      store_weights(lower, _mm512_mullo_epi16(numbers, scales.second));
    } else {
      // Each number becomes the upper byte of 16 bits; takes the upper half of its product with 256 times the
      // scale.
      const W high = _mm512_set1_epi16(static_cast<short>(0xff00)), low = _mm512_set1_epi16(0x00ff);
      if constexpr (kPanel.zero != 0) numbers = add_bytes(numbers, -kPanel.zero);
      const W odd = _mm512_mulhi_epi16(_mm512_and_si512(numbers, high), scales.first);
      const W even =
          _mm512_mulhi_epi16(_mm512_and_si512(_mm512_bslli_epi128(numbers, 1), high), scales.first);
      constexpr int kFirstWhereSet = 0xca;
      store_weights(upper, _mm512_ternarylogic_epi32(low, _mm512_bsrli_epi128(even, 1), odd, kFirstWhereSet));
      store_weights(lower, _mm512_ternarylogic_epi32(low, even, _mm512_bslli_epi128(odd, 1), kFirstWhereSet));
    }
  }

  // Unpacks 64 inputs of a block.
  PAGODA_INLINE void unpack_group(const std::byte* block, int group, ScaledNumbers& out) {
    PAGODA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int at = 2 * group + half;
      constexpr bool kInHalves = kPanel.scale_inputs == 16;
      const Scales first = scales(block, kInHalves ? 2 * at : at);
      const Scales second = kInHalves ? scales(block, 2 * at + 1) : first;
      std::byte *const upper = out.upper[group] + 512 * half, *const lower = out.lower[group] + 512 * half;
      W quads[8];
      unpack_quads<kFormat>(block, at, quads);
      PAGODA_UNROLL
      for (int v = 0; v < 8; ++v) put(quads[v], v < 4 ? first : second, upper + 64 * v, lower + 64 * v);
    }
  }

  // Tiles 0 and 2 hold the upper sums of a panel's first 16 rows and of its other rows, tiles 1 and 3 the
  // lower sums; tiles 4 and 5 hold these rows, 6 and 7 weights. A panel with fewer rows than the tiles reads
  // beyond its own rows and discards those sums.
  template <bool kTall>
  PAGODA_INLINE void multiply(const ScaledNumbers& weights, const std::byte* x, std::int64_t rows,
                              TileSums& out) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kTall) {
      _tile_zero(2);
      _tile_zero(3);
    }
    PAGODA_UNROLL
    for (int group = 0; group < 4; ++group, x += group_bytes(rows)) {
      _tile_loadd(4, x, 64);
      _tile_loadd(6, weights.upper[group], 64);
      _tile_loadd(7, weights.lower[group], 64);
      if constexpr (kTall) _tile_loadd(5, x + kTileBytes, 64);
      if constexpr (kSigned) {
        _tile_dpbssd(0, 4, 6);
        if constexpr (kTall) _tile_dpbssd(2, 5, 6);
      } else {
        _tile_dpbsud(0, 4, 6);
        if constexpr (kTall) _tile_dpbsud(2, 5, 6);
      }
      _tile_dpbsud(1, 4, 7);
      if constexpr (kTall) _tile_dpbsud(3, 5, 7);
    }
    _tile_stored(0, out.upper[0], 64);
    _tile_stored(1, out.lower[0], 64);
    if constexpr (kTall) {
      _tile_stored(2, out.upper[16], 64);
      _tile_stored(3, out.lower[16], 64);
    }
  }

  // Adds the products of a block and a panel to the panel's sums.
  PAGODA_INLINE void add_panel(const ScaledNumbers& weights, const BlockSteps<kFormat>& steps,
                               const std::byte* x, std::int64_t rows, float* sums) {
    TileSums parts;
    if (rows > 16)
      multiply<true>(weights, x, rows, parts);
    else
      multiply<false>(weights, x, rows, parts);
    for (std::int64_t r = 0; r < rows; ++r) {
      const I sum = add(_mm512_slli_epi32(_mm512_load_si512(parts.upper[r]), kShift),
                        _mm512_load_si512(parts.lower[r]));
      store(sums + r * kStrip, add_block(steps, sum, x, rows, r, load(sums + r * kStrip)));
    }
  }

  // Computes all panels of a tile, one strip at a time. The tiles must be configured.
  static void run(const LinearTile& t) {
    const std::int64_t first_row = t.panels.begin(t.first_panel),
                       num_rows = t.panels.begin(t.last_panel) - first_row;
    const std::int64_t steps_of_strip = t.k / 64;
    LaterReads later({t.later, t.later_piece_bytes}, t.later_begin, t.later_end, t.num_strips);
    ScaledNumbers weights;
    for (std::int64_t strip = 0; strip < t.num_strips; ++strip) {
      const std::byte* const next = weights_ahead(t, strip, t.strip_bytes);
      Ahead ahead = {.next = next,
                     .next_lines = next != nullptr ? lines_per_step(t.strip_bytes / 64, steps_of_strip) : 0,
                     .step = nullptr,
                     .later = later.take(steps_of_strip)};
      for (std::int64_t r = 0; r < num_rows; ++r) {
        prefetch_results<1, 1>(t, first_row + r, strip);
        store(t.sums + r * kStrip, zero());
      }
      const std::byte* block = t.weights + strip * t.strip_bytes;
      for (std::int64_t begin = 0; begin < t.k; begin += kSuperBlockInputs, block += kPanel.block_bytes) {
        PAGODA_UNROLL
        for (int group = 0; group < 4; ++group) {
          fetch<0>(ahead);
          unpack_group(block, group, weights);
        }
        BlockSteps<kFormat> steps;
        read_steps(block, steps);
        write_before_tiles();
        for (std::int64_t panel = t.first_panel; panel < t.last_panel; ++panel) {
          const std::int64_t row = t.panels.begin(panel), rows = t.panels.begin(panel + 1) - row;
          const std::byte* const x = t.x + panel * t.panels.bytes + begin / 64 * group_bytes(rows);
          add_panel(weights, steps, x, rows, t.sums + (row - first_row) * kStrip);
        }
      }
      for (std::int64_t r = 0; r < num_rows; ++r) {
        F acc[1][1] = {{load(t.sums + r * kStrip)}};
        finish(t, first_row + r, strip, acc);
      }
    }
    if (t.past_caches) fence();
  }
};

}  // namespace
}  // namespace pagoda::cpu
