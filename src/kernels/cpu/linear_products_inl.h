#pragma once
// Products of one panel of rows and one strip of columns (or several adjacent ones), written once over the
// sixteen lanes of simd_*.h and compiled once per instruction set. Each output element is one chain of
// additions over k in ascending order, whatever the shape of its register tile. Here: the parts common to all
// weight types, and float products. 8 bits: linear_int8_inl.h. The pairing of panels and strips:
// linear_inl.h.
#include "kernels/cpu/int8_inl.h"
#include "kernels/cpu/later_reads.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/unroll.h"

namespace pagoda::cpu {
namespace {

using namespace simd;  // NOLINT: this file is the body of one translation unit

template <int kRows, int kCols>
PAGODA_INLINE void finish(const LinearTile& t, std::int64_t row, std::int64_t strip, F (&acc)[kRows][kCols]) {
  if (t.row_scales != nullptr) {
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) acc[r][c] = mul(acc[r][c], set1(t.row_scales[row + r]));
    }
  }
  PAGODA_UNROLL
  for (int c = 0; c < kCols; ++c) {
    const std::int64_t column = (strip + c) * kStrip;
    const std::int64_t n = strip + c + 1 == t.num_strips ? t.last_columns : kStrip;
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float* y = t.y + (row - t.first_row + r) * t.y_stride + column;
      F value = acc[r][c];
      if (n == kStrip) {
        if (t.bias != nullptr) value = add(value, load(t.bias + column));
        if (t.accumulate) value = add(load(y), value);
        t.past_caches ? store_past(y, value) : store(y, value);
      } else {
        if (t.bias != nullptr) value = add(value, load_n(t.bias + column, n));
        if (t.accumulate) value = add(load_n(y, n), value);
        store_n(y, value, n);
      }
    }
  }
}

// A panel's sums so far: zeros, or the sums over the preceding inputs.
template <int kRows, int kCols>
PAGODA_INLINE void load_sums(const LinearTile& t, std::int64_t row, std::int64_t strip,
                             F (&acc)[kRows][kCols]) {
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c)
      acc[r][c] = t.is_first_part
                      ? zero()
                      : load(t.sums + ((row - t.first_row + r) * kMaxStrips + strip + c) * kStrip);
  }
}
template <int kRows, int kCols>
PAGODA_INLINE void store_sums(const LinearTile& t, std::int64_t row, std::int64_t strip,
                              const F (&acc)[kRows][kCols]) {
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c)
      store(t.sums + ((row - t.first_row + r) * kMaxStrips + strip + c) * kStrip, acc[r][c]);
  }
}

// The output lines are probably in another core's cache, where they were last read.
template <int kRows, int kCols>
PAGODA_INLINE void prefetch_results(const LinearTile& t, std::int64_t row, std::int64_t strip) {
  if (t.past_caches || !t.is_last_part) return;
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c)
      prefetch_write(t.y + (row - t.first_row + r) * t.y_stride + (strip + c) * kStrip);
  }
}

static_assert(kStrips <= kMaxStrips);

// The lines that a panel prefetches for following panels and for later readers: a few with each step of its
// own work, since many at once would stall it. Rounded up: the last steps may repeat the next panel's first
// lines.
struct Ahead {
  const std::byte* next = nullptr;
  std::int64_t next_lines = 0;
  const std::byte* step = nullptr;  // this step's part of `next`
  LaterLines later;
};
// At the start of a step, fetches all of its lines except the first kOneByOne, which fetch_one fetches.
template <int kOneByOne>
PAGODA_INLINE void fetch(Ahead& ahead) {
  if constexpr (kOneByOne > 0) {
    ahead.step = ahead.next;
    ahead.next += 64 * (ahead.next_lines < kOneByOne ? ahead.next_lines : kOneByOne);
  }
  for (std::int64_t line = kOneByOne; line < ahead.next_lines; ++line, ahead.next += 64)
    prefetch_far(ahead.next);
  for_lines_of_step(ahead.later, [](const std::byte* line) { prefetch_far(line); });
}
// A panel bound by memory must always have requests in flight: lines are then fetched one by one, each beside
// a line of weights, instead of sixteen at once. Few rows fetch one line for each line that they multiply,
// some twice if there are several small panels: a branch would cost one row up to 20 % (AVX2).
template <int kOneByOne, int kRows>
PAGODA_INLINE void fetch_one(const Ahead& ahead, std::int64_t line) {
  if (line < kOneByOne && (kRows < kFetchRows || line < ahead.next_lines))
    prefetch_far(ahead.step + 64 * line);
}

// Weights in f32, or in f16 widened to f32: the same products.
template <bool kHalf>
struct FloatKernel {
  static constexpr int kMaxRows = kF32Rows, kStreamHeight = kF32Rows;
  static constexpr bool kTwoStrips = true;
  // Up to this many adjacent strips fetch lines one by one (fetch_one).
  static constexpr int kFetchedStrips = kStrips;
  static constexpr int kLineInputs = kHalf ? 2 : 1;  // inputs of a strip in one 64-byte line
  static constexpr int kStep = 16 * kLineInputs;     // inputs between fetches
  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    constexpr int kOneByOne = kFetch ? 16 : 0;
    Ahead ahead = first;
    prefetch_results<kRows, kCols>(t, row, strip);
    const auto* x = reinterpret_cast<const float*>(panel);
    const std::byte* w = t.weights + strip * t.strip_bytes;
    F acc[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) acc[r][c] = zero();
    for (std::int64_t k = 0; k < t.k; ++k) {
      if (k % kStep == 0) fetch<kOneByOne>(ahead);
      if (k % kLineInputs == 0) fetch_one<kOneByOne, kRows>(ahead, k % kStep / kLineInputs);
      F weights[kCols];
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) {
        const std::byte* p = w + c * t.strip_bytes + k * (64 / kLineInputs);
        if constexpr (kHalf)
          weights[c] = load_half(p);
        else
          weights[c] = load(reinterpret_cast<const float*>(p));
      }
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const F value = set1(x[k * kRows + r]);
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) acc[r][c] = fma(value, weights[c], acc[r][c]);
      }
    }
    finish(t, row, strip, acc);
  }
};

struct Bf16Kernel {
  static constexpr int kMaxRows = kBf16Rows, kStreamHeight = kBf16Rows;
  static constexpr bool kTwoStrips = true;
  static constexpr int kFetchedStrips = kStrips;
  static constexpr int kStep = 32;
  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    constexpr int kOneByOne = kFetch ? 16 : 0;
    Ahead ahead = first;
    prefetch_results<kRows, kCols>(t, row, strip);
    const std::byte* w = t.weights + strip * t.strip_bytes;
    F acc[kRows][kCols];
    load_sums(t, row, strip, acc);
    const std::int64_t pairs = (t.k + 1) / 2;
    const auto* x = reinterpret_cast<const PairInput*>(panel) + t.first_input * kRows;
    for (std::int64_t begin = 0; begin < pairs; begin += 16, x += kRows * 32) {
      fetch<kOneByOne>(ahead);
      const std::int64_t end = pairs - begin < 16 ? pairs : begin + 16;
      const PairInput* inputs = x;
      for (std::int64_t pair = begin; pair < end; ++pair, inputs += 2) {
        fetch_one<kOneByOne, kRows>(ahead, pair - begin);
        Pairs weights[kCols];
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) weights[c] = load_pairs(w + c * t.strip_bytes + pair * 64);
        PAGODA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          PAGODA_UNROLL
          for (int c = 0; c < kCols; ++c) acc[r][c] = dot2(acc[r][c], weights[c], inputs + 32 * r);
        }
      }
    }
    if (!t.is_last_part) return store_sums(t, row, strip, acc);
    finish(t, row, strip, acc);
  }
};

}  // namespace
}  // namespace pagoda::cpu
