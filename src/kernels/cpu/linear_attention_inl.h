// Linear attention over the sixteen lanes of simd_*.h. A pass over the tile does four things with each number
// of the state while it is in a register: decays it, adds its part of the row's key d^T, reads it for this
// row's query, and reads it for the next row's key, whose delta needs that sum before its own pass. So the
// state is read and written once per row.
#include "kernels/cpu/lanes_inl.h"
#include "kernels/cpu/state_rows.h"
#include "kernels/cpu/unroll.h"

namespace pagoda::cpu {
namespace {

using namespace simd;  // NOLINT: this file is the body of one translation unit

// One row, where d is the factor of its key. kNext: `next` becomes S^T next_key.
template <int kVectors, bool kPartial, bool kNext>
PAGODA_INLINE void pass(float* state, std::int64_t step, std::int64_t lanes, std::int32_t key_size, F decay,
                        const F (&d)[kVectors], const float* key, const float* query, const float* next_key,
                        F (&out)[kVectors], F (&next)[kVectors]) {
  PAGODA_UNROLL
  for (int v = 0; v < kVectors; ++v) out[v] = next[v] = zero();
  for (std::int32_t i = 0; i < key_size; ++i, state += step) {
    const F k = set1(key[i]), q = set1(query[i]);
    PAGODA_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const F s = fma(k, d[v], mul(decay, get<kPartial>(state + 16 * v, lanes)));
      put<kPartial>(state + 16 * v, s, lanes);
      out[v] = fma(q, s, out[v]);
      if constexpr (kNext) next[v] = fma(set1(next_key[i]), s, next[v]);
    }
  }
}

template <int kVectors, bool kPartial, bool kDelta>
void go(const LinearAttentionTile& tile, std::int32_t column, std::int64_t lanes, std::int32_t first,
        std::int32_t last) {
  const std::int64_t step = tile.columns;
  float* const state = tile.state + column;
  const float* key = tile.key + first * tile.row_stride;
  F next[kVectors], out[kVectors], d[kVectors];
  PAGODA_UNROLL
  for (int v = 0; v < kVectors; ++v) next[v] = zero();
  if constexpr (kDelta) {
    for (std::int32_t i = 0; i < tile.key_size; ++i) {
      PAGODA_UNROLL
      for (int v = 0; v < kVectors; ++v)
        next[v] = fma(set1(key[i]), get<kPartial>(state + i * step + 16 * v, lanes), next[v]);
    }
  }
  for (std::int32_t row = first; row < last; ++row, key += tile.row_stride) {
    const float* const value = tile.value + row * tile.row_stride + column;
    const float* const query = tile.query + row * tile.row_stride;
    float* const output = tile.output + row * tile.output_stride + column;
    const F decay = set1(tile.decay[row * tile.gate_stride]),
            weight = set1(tile.weight[row * tile.gate_stride]);
    F values[kVectors];
    PAGODA_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      values[v] = get<kPartial>(value + 16 * v, lanes);
      d[v] = kDelta ? mul(weight, sub(values[v], mul(decay, next[v]))) : mul(weight, values[v]);
    }
    if (kDelta && row + 1 < last)
      pass<kVectors, kPartial, true>(state, step, lanes, tile.key_size, decay, d, key, query,
                                     key + tile.row_stride, out, next);
    else
      pass<kVectors, kPartial, false>(state, step, lanes, tile.key_size, decay, d, key, query, nullptr, out,
                                      next);
    PAGODA_UNROLL
    for (int v = 0; v < kVectors; ++v)
      put<kPartial>(output + 16 * v, fma(set1(tile.skip), values[v], out[v]), lanes);
  }
}

template <bool kDelta>
void columns_of_tile(const LinearAttentionTile& tile, std::int32_t first, std::int32_t last) {
  std::int32_t column = 0;
  for (; column + 16 * kStateVectors <= tile.columns; column += 16 * kStateVectors)
    go<kStateVectors, false, kDelta>(tile, column, 16, first, last);
  for (; column < tile.columns; column += 16) {
    if (column + 16 <= tile.columns)
      go<1, false, kDelta>(tile, column, 16, first, last);
    else
      go<1, true, kDelta>(tile, column, tile.columns - column, first, last);
  }
}

void rows_of_tile(const LinearAttentionTile& tile, std::int32_t first, std::int32_t last) {
  tile.delta_rule ? columns_of_tile<true>(tile, first, last) : columns_of_tile<false>(tile, first, last);
}

}  // namespace
}  // namespace pagoda::cpu
