// linear over tiles: which panels of rows meet which strips of columns, and what is read ahead meanwhile;
// rows made ready for them. Compiled once per instruction set; the products are linear_products_inl.h.
#include "kernels/cpu/linear_products_inl.h"

namespace pagoda::cpu {
namespace {

template <class Kernel, int kCols, int kRows>
void run_rows(const LinearTile& t, std::int64_t row, std::int64_t rows, const std::byte* panel,
              std::int64_t strip, const Ahead& ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return run_rows<Kernel, kCols, kRows - 1>(t, row, rows, panel, strip, ahead);
  }
  if constexpr (kRows < kFetchRows) {
    if (ahead.next == nullptr) return Kernel::template run<kRows, kCols, false>(t, row, panel, strip, ahead);
  }
  Kernel::template run<kRows, kCols, true>(t, row, panel, strip, ahead);
}

// What the tile brings for others, for all panels of all its strips.
LaterReads later_reads(const LinearTile& t) {
  const std::int64_t at_once = t.panels.two_strips ? kStrips : 1;
  const std::int64_t panels = (t.num_strips + at_once - 1) / at_once * (t.last_panel - t.first_panel);
  return {{t.later, t.later_piece_bytes}, t.later_begin, t.later_end, panels};
}

// All panels of one strip, or of kStrips of them side by side; meanwhile what comes next comes into the
// cache, a share with each panel.
template <class Kernel>
void run_strips(const LinearTile& t, std::int64_t strip, bool pair, const std::byte* next,
                std::int64_t next_bytes, LaterReads& later) {
  const std::int64_t steps = (t.k + Kernel::kStep - 1) / Kernel::kStep;
  const std::int64_t share =
      next != nullptr ? (next_bytes / (t.last_panel - t.first_panel) + 63) / 64 * 64 : 0;
  Ahead ahead = {.next = next, .next_lines = lines_per_step(share / 64, steps), .step = nullptr, .later = {}};
  std::int64_t row = t.panels.begin(t.first_panel);
  for (std::int64_t panel = t.first_panel; panel < t.last_panel; ++panel) {
    const std::int64_t rows = t.panels.begin(panel + 1) - row;
    const std::byte* const x = t.x + panel * t.panels.bytes;
    ahead.later = later.take(steps);
    // `ahead` by reference: a copy made of its parts would wait until all stores before it are done.
    if (pair) {
      run_rows<Kernel, kStrips, Kernel::kMaxRows>(t, row, rows, x, strip, ahead);
    } else {
      run_rows<Kernel, 1, Kernel::kStreamHeight>(t, row, rows, x, strip, ahead);
    }
    ahead.next += share;
    row += rows;
  }
}

// The weights that come into the cache while those of `strips` bytes are multiplied; null: none.
const std::byte* weights_ahead(const LinearTile& t, std::int64_t strip, std::int64_t strips) {
  const std::int64_t ahead = t.bytes_ahead == kNextStrips ? strips : t.bytes_ahead;
  if (ahead == 0) return nullptr;
  const std::int64_t at = strip * t.strip_bytes + ahead, end = t.num_strips * t.strip_bytes;
  if (at < end) return t.weights + at;
  return t.next_weights != nullptr ? t.next_weights + (at - end) : nullptr;
}

template <class Kernel>
void run_tile(const LinearTile& t) {
  LaterReads later = later_reads(t);
  for (std::int64_t strip = 0; strip < t.num_strips;) {
    const bool pair = t.panels.two_strips && strip + kStrips <= t.num_strips;
    const std::int64_t count = pair ? kStrips : 1, bytes = count * t.strip_bytes;
    run_strips<Kernel>(t, strip, pair, weights_ahead(t, strip, bytes), bytes, later);
    strip += count;
  }
  if (t.past_caches) fence();
}

// One row times 4-bit weights. These bound it by the instructions that widen them, so they stay in 16 bits,
// and the bases, which the same row is multiplied with, come in at the end of 32 inputs.
struct SplitGroup {
  std::int16_t even[16][2], odd[16][2];  // bytes 0 and 2, and 1 and 3, of each quad
  std::int32_t sum[2];                   // of 32 inputs
};
void split_group(const std::byte* panel, SplitGroup& out) {
  if constexpr (kQuadParts == 2) {
    for (int i = 0; i < 16; ++i) {
      std::memcpy(out.even[i], panel + 8 * i, 4);
      std::memcpy(out.odd[i], panel + 8 * i + 4, 4);
    }
  } else {
    std::int16_t pairs[32];
    std::memcpy(pairs, panel, 64);
    for (int i = 0; i < 32; ++i) {
      out.even[i / 2][i % 2] = static_cast<std::int8_t>(pairs[i]);
      out.odd[i / 2][i % 2] = static_cast<std::int16_t>(pairs[i] >> 8);
    }
  }
  std::int32_t term;  // -128 times the sum of all
  std::memcpy(&term, panel + kGroupRowBytes + 4, 4);
  QuadInput half[32];
  std::memcpy(half, panel, sizeof half);
  out.sum[0] = 0;
  for (const QuadInput one : half) out.sum[0] += one;
  out.sum[1] = term / -128 - out.sum[0];
}
// kFetch: whether t.bytes_ahead says so; asked for each line, the question would cost up to 15 % (AVX2).
template <bool kFetch>
void run_nibble_row(const LinearTile& t) {
  const std::int64_t groups = (t.k + 63) / 64;
  auto* const row = reinterpret_cast<SplitGroup*>(t.scratch);
  for (std::int64_t group = 0; group < groups; ++group) split_group(t.x + group * group_bytes(1), row[group]);
  for (std::int64_t strip = 0; strip < t.num_strips; ++strip) {
    const std::byte* const w = t.weights + strip * t.strip_bytes;
    const std::byte* block = w + strip_header_bytes(PackedFormat::q4);
    const std::byte* x = t.x;
    // Where nothing comes next the strip itself, which the cache has.
    const std::byte* ahead = weights_ahead(t, strip, t.strip_bytes);
    if (ahead == nullptr) ahead = w;
    F acc[1][1] = {{zero()}};
    for (std::int64_t group = 0; group < groups; ++group, x += group_bytes(1)) {
      float scale;
      std::int32_t term;
      std::memcpy(&scale, x + kGroupRowBytes, 4);
      std::memcpy(&term, x + kGroupRowBytes + 4, 4);
      I sum[4] = {iset1(term), izero(), izero(), izero()};
      PAGODA_UNROLL
      for (int half = 0; half < 2; ++half, block += kNibbleBlock, ahead += kNibbleBlock) {
        const W steps = load_weights(block);
        if constexpr (kFetch) prefetch_far(ahead);
        PAGODA_UNROLL
        for (int v = 0; v < 4; ++v) {
          if constexpr (kFetch) prefetch_far(ahead + 64 + v * 64);
          const Nibbles n = step_nibbles(load_weights(block + 64 + v * 64), steps);
          const int low = 8 * half + v, high = low + 4;  // quads
          sum[0] = dot2(sum[0], n.of[0], row[group].even[low]);
          sum[1] = dot2(sum[1], n.of[1], row[group].odd[low]);
          sum[2] = dot2(sum[2], n.of[2], row[group].even[high]);
          sum[3] = dot2(sum[3], n.of[3], row[group].odd[high]);
        }
        sum[half] = add_base(sum[half], steps, row[group].sum[half]);
      }
      acc[0][0] = fma(to_float(add(add(sum[0], sum[1]), add(sum[2], sum[3]))), set1(scale), acc[0][0]);
    }
    acc[0][0] = mul(acc[0][0], load(reinterpret_cast<const float*>(w)));
    finish(t, t.first_row, strip, acc);
  }
  if (t.past_caches) fence();
}

// 4-bit weights are widened once for all panels; a single panel widens them on the way.
void run_nibbles(const LinearTile& t) {
  if (t.panels.num_rows == 1) return t.bytes_ahead == 0 ? run_nibble_row<false>(t) : run_nibble_row<true>(t);
  if (t.panels.count == 1) return run_tile<Int8Kernel<true>>(t);
  LinearTile wide = t;
  wide.weights = t.scratch;
  wide.strip_bytes = strip_bytes(PackedFormat::q8, t.k);
  LaterReads later = later_reads(t);
  for (std::int64_t strip = 0; strip < t.num_strips; strip += kStrips) {
    const std::int64_t count = t.num_strips - strip < kStrips ? t.num_strips - strip : kStrips;
    for (std::int64_t s = 0; s < count; ++s)
      widen_strip(t.weights + (strip + s) * t.strip_bytes, t.k, t.scratch + s * wide.strip_bytes);
    wide.num_strips = count;
    wide.last_columns = strip + count == t.num_strips ? t.last_columns : kStrip;
    const bool pair = count == kStrips && t.panels.two_strips;
    for (std::int64_t s = 0; s < count; s += pair ? kStrips : 1)
      run_strips<Int8Kernel<false>>(wide, s, pair,
                                    s == 0 ? weights_ahead(t, strip, kStrips * t.strip_bytes) : nullptr,
                                    kStrips * t.strip_bytes, later);
    wide.y += kStrips * kStrip;
    if (wide.bias != nullptr) wide.bias += kStrips * kStrip;
  }
  if (t.past_caches) fence();
}

void quantize_row(const float* x, std::int64_t k, const QuantizedRow& out) {
  for (std::int64_t group = 0; group * 64 < k; ++group) {
    F values[4], top = zero();
    PAGODA_UNROLL
    for (int v = 0; v < 4; ++v) {
      const std::int64_t at = group * 64 + 16 * v, n = k - at;
      values[v] = n >= 16 ? load(x + at) : n > 0 ? load_n(x + at, n) : zero();
      top = max(top, abs(values[v]));
    }
    const float largest = reduce_max(top);
    const F inverse = set1(largest > 0 ? 127.0f / largest : 0.0f);
    I sum = izero();
    PAGODA_UNROLL
    for (int v = 0; v < 4; ++v) {
      const I q = to_int(mul(values[v], inverse));
      store_quads(reinterpret_cast<QuadInput*>(out.q + group * out.step) + 16 * v, q);
      sum = add(sum, q);
    }
    const std::int64_t step = group * (out.step / 4);
    out.scale[step] = largest / 127.0f;
    // Modulo 2^32, since NaNs may have become anything.
    out.term[step] = static_cast<std::int32_t>(-128u * static_cast<std::uint32_t>(reduce_add(sum)));
  }
}

void round_row(const float* x, std::int64_t k, std::byte* out, std::int64_t step) {
  for (std::int64_t i = 0; i < k; i += 32, out += step) {
    auto* rounded = reinterpret_cast<PairInput*>(out);
    PAGODA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const std::int64_t at = i + 16 * half, n = k - at;
      store_pair_input(rounded + 16 * half, n >= 16 ? load(x + at) : n > 0 ? load_n(x + at, n) : zero());
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

void floats_to_half(const float* x, std::int64_t n, std::uint16_t* out) {
  const F largest = set1(65504.0f), least = set1(-65504.0f);
  for (std::int64_t i = 0; i < n; i += 16)
    store_half(out + i, min(max(n - i >= 16 ? load(x + i) : load_n(x + i, n - i), least), largest));
}

constexpr LinearKernels kLinearKernels = {
    // By PackedFormat; the reference alone reads plain.
    .tiles = {nullptr, run_tile<FloatKernel<false>>, run_tile<Bf16Kernel>, run_tile<Int8Kernel<false>>,
              run_nibbles, run_tile<FloatKernel<true>>},
    .f32_rows = kF32Rows,
    .bf16_rows = kBf16Rows,
    .int8_rows = kInt8Rows,
    .stream_int8_rows = kStreamInt8Rows,
    .stream_nibble_rows = kStreamNibbleRows,
    .quantize_row = quantize_row,
    .round_row = round_row,
    .bf16_bytes = sizeof(PairInput),
    .int8_bytes = sizeof(QuadInput),
    .largest = largest,
    .row_weights = to_bytes,
    .half_to_floats = half_to_floats,
    .floats_to_bf16 = floats_to_bf16,
    .floats_to_half = floats_to_half,
};

}  // namespace
}  // namespace pagoda::cpu
