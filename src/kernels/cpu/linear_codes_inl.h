// Products of rows in bf16 with float codes (has_codes). Few rows unpack the codes in registers; for more
// rows they are converted to bf16, some inputs at a time. Both multiply the same numbers in the same order.
#include "kernels/cpu/linear_products_inl.h"

namespace pagoda::cpu {
namespace {

// The scale of 16 inputs of a block; for e4m3 times 2^8, as load_e4m3_pairs requires.
template <PackedFormat kFormat>
PAGODA_INLINE F code_scale(const std::byte* strip, const std::byte* block, std::int64_t sixteen) {
  constexpr PanelLayout kPanel = panel_layout(kFormat);
  if constexpr (kPanel.scales == PanelScales::e4m3) {
    const F scale = mul(load_e4m3(block + 16 * sixteen), set1(256.0f));
    return div(mul(scale, load(reinterpret_cast<const float*>(strip))),
               load(reinterpret_cast<const float*>(strip + 64)));
  } else {
    const F scale = load(reinterpret_cast<const float*>(block));
    return kPanel.code_bits == 8 ? mul(scale, set1(256.0f)) : scale;
  }
}

// Pair `pair` of 16 inputs, whose numbers begin at `numbers`.
template <PackedFormat kFormat>
PAGODA_INLINE Pairs unpack_pair(const std::byte* numbers, int pair, const F& scale) {
  constexpr PanelLayout kPanel = panel_layout(kFormat);
  F even, odd;
  if constexpr (kPanel.code_bits == 8) {
    load_e4m3_pairs(numbers + 32 * pair, even, odd);
  } else {
    const F table = load(kPanel.values);
    const W line = load_weights(numbers + pair / 4 * 64);
    even = look_up_nibbles(table, line, pair % 4 * 2);
    odd = look_up_nibbles(table, line, pair % 4 * 2 + 1);
  }
  return pairs_of(mul(even, scale), mul(odd, scale));
}

// Products of rows with the codes of one strip, unpacked in registers. Sums<kRows> adds a pair of inputs; it
// provides Input, the element type of prepared rows, and acc, the results.
template <PackedFormat kFormat, template <int> class Sums, int kMost>
struct CodeRows {
  static constexpr PanelLayout kPanel = panel_layout(kFormat);
  static constexpr int kMaxRows = kMost, kStreamHeight = kMost;
  static constexpr bool kTwoStrips = false;
  static constexpr int kFetchedStrips = 1;
  static constexpr int kStep = 32, kStepLines = kStep * kPanel.code_bits / 32;

  template <int kRows, int, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    constexpr int kOneByOne = kFetch ? kStepLines : 0;
    Ahead ahead = first;
    prefetch_results<kRows, 1>(t, row, strip);
    const std::byte* const w = t.weights + strip * t.strip_bytes;
    const std::byte* block = w + kPanel.header_bytes;
    using Totals = Sums<kRows>;
    const auto* x = reinterpret_cast<const typename Totals::Input*>(panel);
    Totals sums;
    for (int r = 0; r < kRows; ++r) sums.acc[r][0] = zero();
    for (std::int64_t begin = 0; begin < t.k; begin += kStep, x += kRows * kStep) {
      if (begin > 0 && begin % kPanel.block_inputs == 0) block += kPanel.block_bytes;
      fetch<kOneByOne>(ahead);
      Totals::begin_step(sums);
      PAGODA_NO_UNROLL
      for (int half = 0; half < 2; ++half) {
        const std::int64_t at = begin % kPanel.block_inputs + 16 * half;
        const std::byte* const numbers = block + kPanel.scale_bytes + 2 * kPanel.code_bits * at;
        const F scale = code_scale<kFormat>(w, block, at / 16);
        PAGODA_UNROLL
        for (int pair = 0; pair < 8; ++pair) {
          constexpr int kLinePairs = 16 / kPanel.code_bits;
          if (pair % kLinePairs == 0)
            fetch_one<kOneByOne, kRows>(ahead, half * (kStepLines / 2) + pair / kLinePairs);
          Totals::add_pair(sums, unpack_pair<kFormat>(numbers, pair, scale), x + 16 * half + 2 * pair);
        }
      }
      Totals::end_step(sums);
    }
    finish(t, row, strip, sums.acc);
  }
};

// Rows in bf16, stored 32 inputs of each row at a time.
template <int kRows>
struct PairSums {
  using Input = PairInput;
  PAGODA_INLINE void begin_step(PairSums&) {}
  PAGODA_INLINE void add_pair(PairSums& to, const Pairs& weights, const PairInput* x) {
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) to.acc[r][0] = dot2(to.acc[r][0], weights, x + 32 * r);
  }
  PAGODA_INLINE void end_step(PairSums&) {}

  F acc[kRows][1];
};
template <PackedFormat kFormat>
using CodeKernel = CodeRows<kFormat, PairSums, kBf16Rows>;

// Converts `count` inputs of one strip from `first` on, which must begin a block, to the layout of
// PackedFormat::bf16.
template <PackedFormat kFormat>
void unpack_strip(const std::byte* strip, std::int64_t first, std::int64_t count, std::byte* out) {
  constexpr PanelLayout kPanel = panel_layout(kFormat);
  for (std::int64_t input = first; input < first + count; input += 16) {
    const std::byte* const block =
        strip + kPanel.header_bytes + input / kPanel.block_inputs * kPanel.block_bytes;
    const std::int64_t at = input % kPanel.block_inputs;
    const F scale = code_scale<kFormat>(strip, block, at / 16);
    PAGODA_UNROLL
    for (int pair = 0; pair < 8; ++pair, out += 64)
      store_pairs(out,
                  unpack_pair<kFormat>(block + kPanel.scale_bytes + 2 * kPanel.code_bits * at, pair, scale));
  }
}

}  // namespace
}  // namespace pagoda::cpu
