// linear over tiles: pairs panels of rows with strips of columns, prefetches, and prepares rows. Compiled
// once per instruction set. The products are in linear_products_inl.h, linear_codes_inl.h,
// linear_integers_inl.h, linear_int8_inl.h and linear_blocks_inl.h; widening of weights is in
// linear_widen_inl.h, table points in linear_points_inl.h.
#include <type_traits>
#include <utility>

#include "kernels/cpu/linear_blocks_inl.h"
#include "kernels/cpu/linear_codes_inl.h"
#include "kernels/cpu/linear_int8_inl.h"
#include "kernels/cpu/linear_integers_inl.h"
#ifdef PAGODA_LOOKS_UP_POINTS
#include "kernels/cpu/linear_points_inl.h"
#endif
#include "kernels/cpu/linear_widen_inl.h"

namespace pagoda::cpu {
namespace {

// A kernel's functions for panels of 1 row and more. Called through tables and never inlined: each would be
// optimised again in its caller, which is most of this file's compile time.
using PanelFunction = void (*)(const LinearTile& t, std::int64_t row, const std::byte* panel,
                               std::int64_t strip, const Ahead& ahead);
template <class Kernel, int kCols, bool kFetch, class Rows>
struct PanelFunctions;
template <class Kernel, int kCols, bool kFetch, int... kRows>
struct PanelFunctions<Kernel, kCols, kFetch, std::integer_sequence<int, kRows...>> {
  // A separate function without prefetches exists only where lines would be fetched one by one, for few rows.
  static constexpr bool fetches(int rows) {
    return kFetch || kCols > Kernel::kFetchedStrips || rows >= kFetchRows;
  }
  static constexpr PanelFunction all[] = {Kernel::template run<kRows + 1, kCols, fetches(kRows + 1)>...};
};

template <class Kernel, int kCols, int kMostRows>
PAGODA_INLINE void run_rows(const LinearTile& t, std::int64_t row, std::int64_t rows, const std::byte* panel,
                            std::int64_t strip, const Ahead& ahead) {
  using Rows = std::make_integer_sequence<int, kMostRows>;
  const PanelFunction* const functions = ahead.next != nullptr
                                             ? PanelFunctions<Kernel, kCols, true, Rows>::all
                                             : PanelFunctions<Kernel, kCols, false, Rows>::all;
  functions[rows - 1](t, row, panel, strip, ahead);
}

// The lines that the tile prefetches for later readers, spread over all panels of all its strips; each panel
// takes `parts` steps.
LaterReads later_reads(const LinearTile& t, std::int64_t parts) {
  const std::int64_t at_once = t.panels.two_strips ? kStrips : 1;
  const std::int64_t panels = (t.num_strips + at_once - 1) / at_once * (t.last_panel - t.first_panel);
  return {{t.later, t.later_piece_bytes}, t.later_begin, t.later_end, panels * parts};
}

// Calls body(row, rows, x, ahead) for each panel of the tile, which takes `steps` steps; each panel
// prefetches its share of the next weights meanwhile.
template <class Body>
PAGODA_INLINE void for_panels(const LinearTile& t, std::int64_t steps, const std::byte* next,
                              std::int64_t next_bytes, LaterReads& later, const Body& body) {
  const std::int64_t share =
      next != nullptr ? (next_bytes / (t.last_panel - t.first_panel) + 63) / 64 * 64 : 0;
  Ahead ahead = {.next = next, .next_lines = lines_per_step(share / 64, steps), .step = nullptr, .later = {}};
  std::int64_t row = t.panels.begin(t.first_panel);
  for (std::int64_t panel = t.first_panel; panel < t.last_panel; ++panel) {
    const std::int64_t rows = t.panels.begin(panel + 1) - row;
    ahead.later = later.take(steps);
    // `ahead` by reference: reading a copy that was just stored in parts would wait for all earlier stores.
    body(row, rows, t.x + panel * t.panels.bytes, ahead);
    ahead.next += share;
    row += rows;
  }
}

// All panels of one strip, or of kStrips adjacent strips.
template <class Kernel>
void run_strips(const LinearTile& t, std::int64_t strip, bool pair, const std::byte* next,
                std::int64_t next_bytes, LaterReads& later) {
  const std::int64_t steps = (t.k + Kernel::kStep - 1) / Kernel::kStep;
  for_panels(t, steps, next, next_bytes, later,
             [&](std::int64_t row, std::int64_t rows, const std::byte* x, const Ahead& ahead) {
               if constexpr (Kernel::kTwoStrips) {
                 if (pair) run_rows<Kernel, kStrips, Kernel::kMaxRows>(t, row, rows, x, strip, ahead);
               }
               if (!Kernel::kTwoStrips || !pair)
                 run_rows<Kernel, 1, Kernel::kStreamHeight>(t, row, rows, x, strip, ahead);
             });
}

// The weights to prefetch while `strips` bytes of strips are multiplied; null for none.
const std::byte* weights_ahead(const LinearTile& t, std::int64_t strip, std::int64_t strips) {
  const std::int64_t ahead = t.bytes_ahead == kNextStrips ? strips : t.bytes_ahead;
  if (ahead == 0) return nullptr;
  const std::int64_t at = strip * t.strip_bytes + ahead, end = t.num_strips * t.strip_bytes;
  if (at < end) return t.weights + at;
  return t.next_weights != nullptr ? t.next_weights + (at - end) : nullptr;
}

// Calls body(strip, pair, bytes) for the strips of a tile: pairs of kStrips if `pairs`, then single strips.
template <class Body>
PAGODA_INLINE void for_strips(const LinearTile& t, bool pairs, const Body& body) {
  for (std::int64_t strip = 0; strip < t.num_strips;) {
    const bool pair = pairs && strip + kStrips <= t.num_strips;
    const std::int64_t count = pair ? kStrips : 1;
    body(strip, pair, count * t.strip_bytes);
    strip += count;
  }
}

template <class Kernel>
void run_tile(const LinearTile& t) {
  LaterReads later = later_reads(t, 1);
  for_strips(t, Kernel::kTwoStrips && t.panels.two_strips,
             [&](std::int64_t strip, bool pair, std::int64_t bytes) {
               run_strips<Kernel>(t, strip, pair, weights_ahead(t, strip, bytes), bytes, later);
             });
  if (t.past_caches) fence();
}

template <PackedFormat kFormat>
void widen(const std::byte* strip, std::int64_t first, std::int64_t count, std::byte* out) {
  if constexpr (has_codes(kFormat))
    unpack_strip<kFormat>(strip, first, count, out);
  else
    widen_strip<kFormat>(strip, first, count, out);
}

// The kernel for panels of an 8-bit format.
template <PackedFormat kFormat>
using InIntegers = std::conditional_t<panel_layout(kFormat).scales == PanelScales::bytes,
                                      BlockKernel<kFormat>, Int8Kernel<kFormat>>;
template <PackedFormat kFormat>
struct NarrowKernels {
  using Few = InIntegers<kFormat>;
  using Many = InIntegers<panel_layout(kFormat).wide>;
};
#ifdef PAGODA_LOOKS_UP_POINTS
template <PackedFormat kFormat>
  requires(has_points(kFormat))
struct NarrowKernels<kFormat> {
  using Few = PointKernel<kFormat>;
  using Many = InIntegers<panel_layout(kFormat).wide>;
};
#endif
template <PackedFormat kFormat>
  requires(has_codes(kFormat))
struct NarrowKernels<kFormat> {
  using Few = CodeKernel<kFormat>;
  using Many = Bf16Kernel;
};

// Panels of one strip widen narrow weights in registers. For panels of two strips, weights are widened once
// for all panels, in pieces that stay in the first-level cache (takes_two_strips chooses).
template <PackedFormat kFormat>
void run_narrow(const LinearTile& t) {
  constexpr PackedFormat kWide = panel_layout(kFormat).wide;
  constexpr std::int64_t kInputs = widened_inputs(kFormat);
  using Few = typename NarrowKernels<kFormat>::Few;
  using Many = typename NarrowKernels<kFormat>::Many;
  if (!t.panels.two_strips) return run_tile<Few>(t);
  LinearTile wide = t;
  wide.weights = t.scratch;
  wide.strip_bytes = strip_bytes(kWide, kInputs);
  LaterReads later = later_reads(t, (t.k + kInputs - 1) / kInputs);
  for (std::int64_t strip = 0; strip < t.num_strips; strip += kStrips) {
    const std::int64_t count = t.num_strips - strip < kStrips ? t.num_strips - strip : kStrips;
    wide.num_strips = count;
    wide.last_columns = strip + count == t.num_strips ? t.last_columns : kStrip;
    const std::int64_t bytes = count * t.strip_bytes;
    const std::byte* next = weights_ahead(t, strip, bytes);
    for (std::int64_t begin = 0; begin < t.k; begin += kInputs) {
      wide.first_input = begin;
      wide.k = t.k - begin < kInputs ? t.k - begin : kInputs;
      wide.is_first_part = begin == 0;
      wide.is_last_part = begin + wide.k == t.k;
      for (std::int64_t s = 0; s < count; ++s)
        widen<kFormat>(t.weights + (strip + s) * t.strip_bytes, begin, wide.k,
                       t.scratch + s * wide.strip_bytes);
      const std::int64_t share = (bytes * wide.k / t.k + 63) / 64 * 64;
      run_strips<Many>(wide, 0, count == kStrips, next, share, later);
      if (next != nullptr) next += share;
    }
    wide.y += kStrips * kStrip;
    if (wide.bias != nullptr) wide.bias += kStrips * kStrip;
  }
  if (t.past_caches) fence();
}

// Weights are packed as points only for levels with 64-byte lookups.
template <PackedFormat kFormat>
constexpr LinearTileFunction point_tiles() {
#ifdef PAGODA_LOOKS_UP_POINTS
  return run_narrow<kFormat>;
#else
  return nullptr;
#endif
}

// kAreNumbers: x already holds whole numbers.
template <bool kAreNumbers>
void quantize_row(const float* x, std::int64_t k, std::int64_t scale_inputs, const QuantizedRow& out) {
  const F least = set1(-128.0f), most = set1(127.0f);
  F inverse = zero();
  float scale = 0;
  RowPeaks peaks;
  const std::int64_t step = out.step / 4;
  for (std::int64_t group = 0; group < (k + 63) / 64; ++group) {
    auto* const q = reinterpret_cast<QuadInput*>(out.q + group * out.step);
    float scales[2];
    I numbers[4];
    PAGODA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const std::int64_t begin = group * 64 + half * 32;
      if (begin % scale_inputs == 0) {
        const std::int64_t count = k - begin < scale_inputs ? k - begin : scale_inputs;
        const float top = kAreNumbers ? 127.0f : largest(x + begin, count);
        inverse = set1(top > 0 ? 127.0f / top : 0.0f);
        scale = top / 127.0f;
        peaks = {};
      }
      scales[half] = scale;
      PAGODA_UNROLL
      for (int v = 0; v < 2; ++v) {
        const std::int64_t at = begin + 16 * v, n = k - at;
        const F values = n >= 16 ? load(x + at) : n > 0 ? load_n(x + at, n) : zero();
        // NaNs become the smallest number: no sum can overflow.
        numbers[2 * half + v] = to_int(min(max(mul(values, inverse), least), most));
      }
    }
    QuarterSums sums;
    store_quads(q, numbers, sums);
    PAGODA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const std::int64_t at = group * step + half * out.half;
      const std::int32_t early = sums.sum[2 * half], late = sums.sum[2 * half + 1], of_row = early + late;
      out.scale[at] = scales[half];
      out.term[at] = -kZeroOfBytes * of_row;
      out.early_term[at] = -kZeroOfBytes * early;
      out.late_term[at] = -kZeroOfBytes * late;
      out.sum[at] = scales[half] * static_cast<float>(of_row);
    }
    out.pair[group * step] = ((sums.sum[0] + sums.sum[1]) & 0xffff) | (sums.sum[2] + sums.sum[3]) * (1 << 16);
    if (!kPairsSums || scale_inputs != kSuperBlockInputs) continue;
    peaks.include(sums.sum, sums.magnitude);
    constexpr std::int64_t kGroups = kSuperBlockInputs / 64;
    out.peaks[group / kGroups * kGroups * step] = peaks.packed();
  }
}

// Rounds x, at most 448 in magnitude, to the nearest number with 4 significant bits whose last bit is worth
// 2^-9 or more; ties go to even. Adding 3 * 2^19 times the number's power of two leaves that many bits.
PAGODA_INLINE F round_to_e4m3(F x) {
  const F unit = mul(max(exponent_part(x), set1(0x1p-6f)), set1(0x1.8p20f));
  return sub(add(x, unit), unit);
}

// x[0] to x[15] divided by `scale`, rounded to numbers; NaN stays NaN.
PAGODA_INLINE F input_numbers(InputNumber number, F x, F scale) {
  const bool int8 = number == InputNumber::int8;
  const F share = div(x, scale);
  const F within = min(set1(int8 ? 127.0f : 448.0f), max(set1(int8 ? -128.0f : -448.0f), share));
  return int8 ? round_even(within) : round_to_e4m3(within);
}

float largest_magnitude(const float* x, std::int64_t k) {
  F top = zero();
  for (std::int64_t i = 0; i < k; i += 16)
    top = max(top, abs(k - i >= 16 ? load(x + i) : load_n(x + i, k - i)));
  return reduce_max(top);
}

// The scale that maps the largest magnitude to the largest number. Rows of zeros need a scale, too.
float input_scale(InputNumber number, float largest) {
  constexpr float kLeast = 1.0f / (448.0f * 512.0f);
  if (number == InputNumber::int8) return largest > 0 ? largest / 127.0f : 1.0f;
  return largest / 448.0f > kLeast || largest != largest ? largest / 448.0f : kLeast;
}

// The scale of `count` inputs that share one.
float scale_of(const LinearArithmetic& arithmetic, const float* x, std::int64_t count) {
  if (arithmetic.scales == InputScale::fixed) return arithmetic.scale;
  float largest = largest_magnitude(x, count);
  if (arithmetic.largest > 0 && largest > arithmetic.largest) largest = arithmetic.largest;
  return input_scale(arithmetic.number, largest);
}

float quantize_inputs(const LinearArithmetic& arithmetic, const float* x, std::int64_t k, float* out) {
  const bool groups = arithmetic.scales == InputScale::group;
  const std::int64_t step = groups ? arithmetic.group : k;
  float scale = 1;
  for (std::int64_t begin = 0; begin < k; begin += step) {
    const std::int64_t count = k - begin < step ? k - begin : step;
    scale = scale_of(arithmetic, x + begin, count);
    const F divisor = set1(scale), factor = set1(groups ? scale : 1.0f);
    for (std::int64_t i = begin; i < begin + count; i += 16) {
      const std::int64_t n = begin + count - i;
      const F values = n >= 16 ? load(x + i) : load_n(x + i, n);
      store(out + i, mul(input_numbers(arithmetic.number, values, divisor), factor));
    }
  }
  return groups ? 1.0f : scale;
}

// x / scale, given 1 / scale: bit-identical unless an intermediate value underflows or overflows. Corrects
// the rounded quotient by its remainder, in a fraction of a division's time. Source: Markstein 1990. Without
// fused multiply-adds the remainder would be rounded.
PAGODA_INLINE F quotient(F x, F scale, [[maybe_unused]] F inverse) {
#if defined(__FMA__)
  const F nearly = mul(x, inverse);
  return fma(fma(sub(zero(), nearly), scale, x), inverse, nearly);
#else
  return div(x, scale);
#endif
}

float integer_inputs(const LinearArithmetic& arithmetic, const float* x, std::int64_t k, std::byte* out,
                     std::int64_t step) {
  const float scale = scale_of(arithmetic, x, k);
  // With the row's own scale, all quotients are within 127.
  const bool divides = arithmetic.scales == InputScale::fixed || arithmetic.largest > 0 ||
                       !(scale > 0x1p-60f && scale < 0x1p60f);
  const F divisor = set1(scale), inverse = div(set1(1.0f), divisor);
  const auto put = [&](std::int64_t i, F share) {
    const F within = min(set1(127.0f), max(set1(-128.0f), share));
    store_signed_quads(reinterpret_cast<QuadInput*>(out + i / 64 * step) + i % 64, to_int(within));
  };
  for (std::int64_t i = 0; i < (k + 63) / 64 * 64; i += 16) {
    const std::int64_t n = k - i;
    const F values = n >= 16 ? load(x + i) : n > 0 ? load_n(x + i, n) : zero();
    put(i, divides ? div(values, divisor) : quotient(values, divisor, inverse));
  }
  return scale;
}

void row_weights(const float* x, std::int64_t k, float minimum, float inverse, std::uint8_t* out) {
  const F least = set1(minimum), factor = set1(inverse), most = set1(255.0f);
  for (std::int64_t i = 0; i < k; i += 16) {
    const F u = mul(sub(k - i >= 16 ? load(x + i) : load_n(x + i, k - i), least), factor);
    store_int8(reinterpret_cast<std::int8_t*>(out) + i, add(to_int(min(max(u, zero()), most)), iset1(-128)));
    for (int j = 0; j < 16; ++j) out[i + j] ^= 128;
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
    // Indexed by PackedFormat. Only the reference reads plain; wide formats exist only in scratch.
    .tiles = {nullptr,
              run_tile<FloatKernel<false>>,
              run_tile<Bf16Kernel>,
              run_tile<Int8Kernel<PackedFormat::q8>>,
              run_narrow<PackedFormat::q4>,
              run_tile<FloatKernel<true>>,
              run_tile<Int8Kernel<PackedFormat::q8m>>,
              run_narrow<PackedFormat::q4s>,
              run_narrow<PackedFormat::q4g>,
              run_narrow<PackedFormat::q5s>,
              run_narrow<PackedFormat::q5m>,
              run_narrow<PackedFormat::iq4>,
              run_narrow<PackedFormat::fp4>,
              run_narrow<PackedFormat::q2_k>,
              run_narrow<PackedFormat::q3_k>,
              run_narrow<PackedFormat::q4_k>,
              run_narrow<PackedFormat::q5_k>,
              run_narrow<PackedFormat::q6_k>,
              run_narrow<PackedFormat::iq4_xs>,
              run_narrow<PackedFormat::iq3_xxs>,
              run_narrow<PackedFormat::iq3_s>,
              run_narrow<PackedFormat::iq2>,
              run_narrow<PackedFormat::iq1>,
              point_tiles<PackedFormat::iq2_xxs_points>(),
              point_tiles<PackedFormat::iq2_xs_points>(),
              point_tiles<PackedFormat::iq3_xxs_points>(),
              run_narrow<PackedFormat::e4m3>,
              run_narrow<PackedFormat::nf4>,
              run_narrow<PackedFormat::nvfp4>,
              run_tile<IntegerKernel>},
    .f32_rows = kF32Rows,
    .bf16_rows = kBf16Rows,
    .int8_rows = kInt8Rows,
    .stream_bytes_rows = kStreamInt8Rows,
    .stream_narrow_rows = kStreamNarrowRows,
    .integer_rows = kIntegerRows,
    .block_rows = kInt8Rows,
    .quantize_row = quantize_row<false>,
    .store_numbers = quantize_row<true>,
    .integer_inputs = integer_inputs,
    .quantize_inputs = quantize_inputs,
    .round_row = round_row,
    .bf16_bytes = sizeof(PairInput),
    .int8_bytes = sizeof(QuadInput),
    .row_weights = row_weights,
    .half_to_floats = half_to_floats,
    .floats_to_bf16 = floats_to_bf16,
    .floats_to_half = floats_to_half,
    .panel_sum_bytes = 0,
    .widens_whole_strips = false,
};

}  // namespace
}  // namespace pagoda::cpu
