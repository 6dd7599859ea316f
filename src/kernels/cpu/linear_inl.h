// The inner loops of linear, written once over the sixteen lanes of simd_*.h and compiled once per
// instruction set. Each output element is one chain of additions over k in ascending order, whatever the
// shape of the register tile around it.
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/unroll.h"

namespace pagoda::cpu {
namespace {

using namespace simd;  // NOLINT: this file is the body of one translation unit

template <int kRows, int kCols>
PAGODA_INLINE void finish(const LinearTile& t, std::int64_t row, std::int64_t strip, F (&acc)[kRows][kCols]) {
  PAGODA_UNROLL
  for (int c = 0; c < kCols; ++c) {
    const std::int64_t column = (strip + c) * kStrip;
    const std::int64_t n = strip + c + 1 == t.num_strips ? t.last_columns : kStrip;
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float* y = t.y + (row + r) * t.y_stride + column;
      F value = acc[r][c];
      if (n == kStrip) {
        if (t.bias != nullptr) value = add(value, load(t.bias + column));
        if (t.accumulate) value = add(load(y), value);
        store(y, value);
      } else {
        if (t.bias != nullptr) value = add(value, load_n(t.bias + column, n));
        if (t.accumulate) value = add(load_n(y, n), value);
        store_n(y, value, n);
      }
    }
  }
}

constexpr std::int64_t kPrefetchBytes = 8192;

struct F32Kernel {
  static constexpr int kMaxRows = kF32Rows;
  template <int kRows, int kCols>
  static void run(const LinearTile& t, std::int64_t row, std::int64_t strip) {
    const auto* x = reinterpret_cast<const float*>(t.x + row * t.x_row_bytes);
    const std::byte* w = t.weights + strip * t.strip_bytes;
    F acc[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) acc[r][c] = zero();
    for (std::int64_t k = 0; k < t.k; ++k) {
      F weights[kCols];
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) {
        const std::byte* p = w + c * t.strip_bytes + k * 64;
        prefetch(p + kPrefetchBytes);
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
  static constexpr int kMaxRows = kBf16Rows;
  template <int kRows, int kCols>
  static void run(const LinearTile& t, std::int64_t row, std::int64_t strip) {
    const std::byte* w = t.weights + strip * t.strip_bytes;
    F acc[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) acc[r][c] = zero();
    const std::int64_t pairs = (t.k + 1) / 2;
    const auto* x = reinterpret_cast<const PairInput*>(t.x + row * t.x_row_bytes);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      Pairs weights[kCols];
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) {
        const std::byte* p = w + c * t.strip_bytes + pair * 64;
        prefetch(p + kPrefetchBytes);
        weights[c] = load_pairs(p);
      }
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) acc[r][c] = dot2(acc[r][c], weights[c], x + 2 * (pair * kRows + r));
      }
    }
    finish(t, row, strip, acc);
  }
};

PAGODA_INLINE std::int32_t quad(const std::int8_t* p) {
  std::int32_t value;
  std::memcpy(&value, p, 4);
  return value;
}

// y = sum over groups of d * s * sum((u - zero) * q), with the zero point folded in as the integer sum's
// start (exact). What a format's minimum adds, m * (s * sum(q)), is small beside it: two groups at a time in
// bf16.
template <PackedFormat kFormat>
struct GroupedKernel {
  static constexpr int kMaxRows = kGroupedRows;
  static constexpr bool kNibbles = kFormat == PackedFormat::q4 || kFormat == PackedFormat::q4_min;
  static constexpr bool kMin = kFormat == PackedFormat::q4_min || kFormat == PackedFormat::q8_min;
  static constexpr bool kHasTerm = !(kFormat == PackedFormat::q8 && kWideIsSigned);
  static constexpr int kParts = kFormat == PackedFormat::q8_half ? 2 : 1;  // scales per 32 inputs
  static constexpr std::int64_t kBlockBytes = packed_block_bytes(kFormat);
  static constexpr std::int64_t kHeader = kMin || kParts == 2 ? 128 : 64;  // scales and minima of 64 inputs

  template <int kRows, int kCols>
  static void run(const LinearTile& t, std::int64_t row, std::int64_t strip) {
    const auto* x = reinterpret_cast<const std::int8_t*>(t.x + row * t.x_row_bytes);
    const std::int64_t groups = (t.k + 31) / 32;
    const float* scale = t.scale + row * groups;
    const std::int32_t* term = t.term + row * groups * kParts;
    [[maybe_unused]] const auto* sums =
        reinterpret_cast<const PairInput*>(t.group_sums) + row * ((groups + 1) / 2) * 2;
    const std::byte* w = t.weights + strip * t.strip_bytes;
    F acc[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) acc[r][c] = zero();

    for (std::int64_t group = 0; group < groups; ++group) {
      const std::byte* header = w + group / 2 * kBlockBytes;
      const std::byte* data = header + kHeader + (group % 2) * (kBlockBytes - kHeader) / 2;
      const std::int8_t* q = x + group * kRows * 32;
      for (int part = 0; part < kParts; ++part) {
        I sum[kRows][kCols];
        PAGODA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const I start = kHasTerm ? iset1(term[(group * kRows + r) * kParts + part]) : izero();
          PAGODA_UNROLL
          for (int c = 0; c < kCols; ++c) sum[r][c] = start;
        }
        if constexpr (kNibbles) {
          PAGODA_UNROLL
          for (int v = 0; v < 4; ++v) {
            W low[kCols], high[kCols];
            PAGODA_UNROLL
            for (int c = 0; c < kCols; ++c) {
              const std::byte* p = data + c * t.strip_bytes + v * 64;
              if constexpr (kCols == 1) prefetch(p + kPrefetchBytes);
              const W both = load_weights(p);
              low[c] = low_nibbles(both);
              high[c] = high_nibbles(both);
            }
            PAGODA_UNROLL
            for (int r = 0; r < kRows; ++r) {
              const std::int32_t a = quad(q + r * 32 + 4 * v), b = quad(q + r * 32 + 16 + 4 * v);
              PAGODA_UNROLL
              for (int c = 0; c < kCols; ++c) sum[r][c] = dot4(sum[r][c], low[c], a);
              PAGODA_UNROLL
              for (int c = 0; c < kCols; ++c) sum[r][c] = dot4(sum[r][c], high[c], b);
            }
          }
        } else {
          PAGODA_UNROLL
          for (int v = part * (8 / kParts); v < (part + 1) * (8 / kParts); ++v) {
            W weights[kCols];
            PAGODA_UNROLL
            for (int c = 0; c < kCols; ++c) {
              const std::byte* p = data + c * t.strip_bytes + v * 64;
              if constexpr (kCols == 1) prefetch(p + kPrefetchBytes);
              weights[c] = load_weights(p);
            }
            PAGODA_UNROLL
            for (int r = 0; r < kRows; ++r) {
              const std::int32_t a = quad(q + r * 32 + 4 * v);
              PAGODA_UNROLL
              for (int c = 0; c < kCols; ++c) {
                // Only this format has full 8-bit weights, which AVX2's pairwise products would saturate.
                sum[r][c] = kFormat == PackedFormat::q8 ? dot4_wide(sum[r][c], weights[c], a)
                                                        : dot4(sum[r][c], weights[c], a);
              }
            }
          }
        }
        F d[kCols];
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) {
          d[c] = load_half(header + c * t.strip_bytes + ((group % 2) * kParts + part) * 32);
        }
        PAGODA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const F s = set1(scale[group * kRows + r]);
          PAGODA_UNROLL
          for (int c = 0; c < kCols; ++c) acc[r][c] = fma(to_float(sum[r][c]), mul(d[c], s), acc[r][c]);
        }
      }
      if constexpr (kMin) {
        if (group % 2 != 0 || group + 1 == groups) {
          PAGODA_UNROLL
          for (int c = 0; c < kCols; ++c) {
            const Pairs m = load_pairs(header + c * t.strip_bytes + 64);
            PAGODA_UNROLL
            for (int r = 0; r < kRows; ++r)
              acc[r][c] = dot2(acc[r][c], m, sums + (group / 2 * kRows + r) * 2);
          }
        }
      }
    }
    finish(t, row, strip, acc);
  }
};

// One scale for an output: no float inside the loop but the sum over the activations' groups.
struct RowScaledKernel {
  static constexpr int kMaxRows = kGroupedRows;
  template <int kRows, int kCols>
  static void run(const LinearTile& t, std::int64_t row, std::int64_t strip) {
    const auto* x = reinterpret_cast<const std::int8_t*>(t.x + row * t.x_row_bytes);
    const std::int64_t groups = (t.k + 63) / 64;
    const float* scale = t.scale + row * groups;
    const std::int32_t* term = t.term + row * groups;
    const std::byte* w = t.weights + strip * t.strip_bytes;
    const std::byte* data = w + strip_header_bytes(PackedFormat::q8_row);
    F acc[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) acc[r][c] = zero();
    for (std::int64_t group = 0; group < groups; ++group, data += 1024, x += kRows * 64) {
      I sum[kRows][kCols];
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const I start = kWideIsSigned ? izero() : iset1(term[group * kRows + r]);
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) sum[r][c] = start;
      }
      PAGODA_UNROLL
      for (int v = 0; v < 16; ++v) {
        W weights[kCols];
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) {
          const std::byte* p = data + c * t.strip_bytes + v * 64;
          if constexpr (kCols == 1) prefetch(p + kPrefetchBytes);
          weights[c] = load_weights(p);
        }
        PAGODA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const std::int32_t a = quad(x + r * 64 + 4 * v);
          PAGODA_UNROLL
          for (int c = 0; c < kCols; ++c) sum[r][c] = dot4_wide(sum[r][c], weights[c], a);
        }
      }
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const F s = set1(scale[group * kRows + r]);
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) acc[r][c] = fma(to_float(sum[r][c]), s, acc[r][c]);
      }
    }
    PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) {
      const F d = load(reinterpret_cast<const float*>(w + c * t.strip_bytes));
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) acc[r][c] = mul(acc[r][c], d);
    }
    finish(t, row, strip, acc);
  }
};

template <class Kernel, int kCols, int kRows>
void run_rows(const LinearTile& t, std::int64_t row, std::int64_t strip, std::int64_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return run_rows<Kernel, kCols, kRows - 1>(t, row, strip, rows);
  }
  Kernel::template run<kRows, kCols>(t, row, strip);
}

constexpr std::int64_t kStreamRows = 16;

// A pair of strips stays in the cache for all panels; meanwhile the next pair comes in, a share with each.
template <class Kernel>
void run_tile(const LinearTile& t) {
  for (std::int64_t strip = 0; strip < t.num_strips; strip += kStrips) {
    // Few rows wait for memory, which is fastest as one long stream: then strip by strip.
    const bool full = strip + kStrips <= t.num_strips && t.panels.num_rows > kStreamRows;
    const std::byte* next =
        strip + kStrips < t.num_strips ? t.weights + (strip + kStrips) * t.strip_bytes : t.next_weights;
    const std::int64_t next_bytes = full && next != nullptr ? kStrips * t.strip_bytes : 0;
    const std::int64_t share = (next_bytes / (t.last_panel - t.first_panel) + 63) / 64 * 64;
    for (std::int64_t panel = t.first_panel; panel < t.last_panel; ++panel) {
      const std::int64_t begin = (panel - t.first_panel) * share;
      for (std::int64_t i = begin; i < begin + share && i < next_bytes; i += 64) prefetch_far(next + i);
      const std::int64_t row = t.panels.begin(panel), rows = t.panels.begin(panel + 1) - row;
      if (full) {
        run_rows<Kernel, kStrips, Kernel::kMaxRows>(t, row, strip, rows);
      } else {
        for (std::int64_t s = strip; s < strip + kStrips && s < t.num_strips; ++s)
          run_rows<Kernel, 1, Kernel::kMaxRows>(t, row, s, rows);
      }
    }
  }
}

template <int kVectors>
void quantize_groups(const float* x, std::int64_t k, const QuantizedRow& out) {
  for (std::int64_t group = 0; group * kVectors * 16 < k; ++group) {
    const std::int64_t begin = group * kVectors * 16;
    F values[kVectors], top = zero();
    PAGODA_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = begin + 16 * v, n = k - at;
      values[v] = n >= 16 ? load(x + at) : n > 0 ? load_n(x + at, n) : zero();
      top = max(top, abs(values[v]));
    }
    const float largest = reduce_max(top);
    const F inverse = set1(largest > 0 ? 127.0f / largest : 0.0f);
    out.scale[group * out.scale_step] = largest / 127.0f;
    PAGODA_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const I q = to_int(mul(values[v], inverse));
      store_int8(out.q + group * out.q_step + 16 * v, q);
      out.half_sums[kVectors * group + v] = reduce_add(q);
    }
  }
}
void quantize_row(const float* x, std::int64_t k, const QuantizedRow& out) {
  out.group == 64 ? quantize_groups<4>(x, k, out) : quantize_groups<2>(x, k, out);
}

float largest(const float* x, std::int64_t k) {
  F top = zero();
  for (std::int64_t i = 0; i < k; i += 16)
    top = max(top, abs(k - i >= 16 ? load(x + i) : load_n(x + i, k - i)));
  return reduce_max(top);
}
void row_weights(const float* x, std::int64_t k, float inverse, std::uint8_t* out) {
  const F factor = set1(inverse);
  for (std::int64_t i = 0; i < k; i += 16) {
    store_int8(reinterpret_cast<std::int8_t*>(out) + i,
               to_int(mul(k - i >= 16 ? load(x + i) : load_n(x + i, k - i), factor)));
    for (int j = 0; j < 16; ++j) out[i + j] ^= 128;
  }
}

void round_row(const float* x, std::int64_t k, std::byte* out, std::int64_t pair_step) {
  constexpr std::size_t kPair = 2 * sizeof(PairInput);
  for (std::int64_t i = 0; i < k; i += 16) {
    PairInput rounded[16];
    store_pair_input(rounded, k - i >= 16 ? load(x + i) : load_n(x + i, k - i));
    for (std::int64_t pair = 0; pair < 8 && i + 2 * pair < k; ++pair) {
      std::memcpy(out + (i / 2 + pair) * pair_step, rounded + 2 * pair, kPair);
    }
  }
}

void half_to_floats(const void* x, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; i += 16)
    store(out + i, load_half(static_cast<const std::byte*>(x) + 2 * i));
}
void floats_to_bf16(const float* x, std::int64_t n, std::uint16_t* out) {
  for (std::int64_t i = 0; i < n; i += 16)
    store_bf16(out + i, n - i >= 16 ? load(x + i) : load_n(x + i, n - i));
}

constexpr LinearKernels kLinearKernels = {
    .f32 = run_tile<F32Kernel>,
    .bf16 = run_tile<Bf16Kernel>,
    .q4 = run_tile<GroupedKernel<PackedFormat::q4>>,
    .q4_min = run_tile<GroupedKernel<PackedFormat::q4_min>>,
    .q8 = run_tile<GroupedKernel<PackedFormat::q8>>,
    .q8_min = run_tile<GroupedKernel<PackedFormat::q8_min>>,
    .q8_half = run_tile<GroupedKernel<PackedFormat::q8_half>>,
    .q8_row = run_tile<RowScaledKernel>,
    .f32_rows = kF32Rows,
    .bf16_rows = kBf16Rows,
    .grouped_rows = kGroupedRows,
    .quantize_row = quantize_row,
    .round_row = round_row,
    .bf16_bytes = sizeof(PairInput),
    .largest = largest,
    .row_weights = row_weights,
    .half_to_floats = half_to_floats,
    .floats_to_bf16 = floats_to_bf16,
};

}  // namespace
}  // namespace pagoda::cpu
