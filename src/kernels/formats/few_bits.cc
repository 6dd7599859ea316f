// Types with a few evenly spaced values and one half-precision scale per block: TQ1_0 (-1, 0, 1, five per
// byte), TQ2_0 and Q2_0 (-1 to 2, four per byte) and Q1_0 (-1 or 1, eight per byte).
#include <algorithm>

#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

// A type with w = scale * (spacing * number - 1). kNumber returns the number of element i of a block.
template <DType kType, int kScaleAt, int kSpacing, int (*kNumber)(Bytes block, int i)>
constexpr WeightFormat evenly_spaced() {
  constexpr DTypeInfo kInfo = dtype_info(kType);
  constexpr auto kBlock = +[](Bytes b, float* out) {
    const float d = load_half(b + kScaleAt);
    for (int i = 0; i < kInfo.block_elements; ++i)
      out[i] = d * static_cast<float>(kSpacing * kNumber(b, i) - 1);
  };
  constexpr auto kNibbles = +[](Bytes row, std::int64_t group) {
    constexpr int kGroups = kInfo.block_elements / 32;
    const Bytes b = row + group / kGroups * kInfo.block_bytes;
    const auto first = static_cast<int>(group % kGroups) * 32;
    const float d = load_half(b + kScaleAt);
    return nibbles_of(kSpacing * d, -d, [&](int i) { return kNumber(b, first + i); });
  };
  if constexpr (kInfo.block_elements != kSuperBlockInputs)
    return {.decode = blocks<kType, kBlock>, .int8_panels = PackedFormat::q4, .nibbles = kNibbles};
  // d is eight times an eighth of the scale; -1 to 2 are at indices 2 and up of kIq1Values.
  constexpr auto kRead = +[](Bytes b, SuperBlock& out) {
    out.d = load<std::uint16_t>(b + kScaleAt);
    std::ranges::fill(out.scales, std::int8_t{8});
    for (int i = 0; i < kSuperBlockInputs; ++i) out.numbers[i] = static_cast<std::uint8_t>(kNumber(b, i) + 2);
  };
  return {.decode = blocks<kType, kBlock>,
          .int8_panels = PackedFormat::iq1,
          .super_block = kRead,
          .nibbles = kNibbles};
}

// A byte is 256/243 of a five-digit number in base 3, rounded up: multiplied by 3, its first digit carries
// past 256. The block consists of runs of 32, 16 and 4 bytes; each run holds the first digits of all its
// bytes, then the second digits, and so on.
int ternary_digit(Bytes b, int i) {
  constexpr std::uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  const int log_run = i < 160 ? 5 : i < 240 ? 4 : 2, first = i < 160 ? 0 : i < 240 ? 160 : 240;
  const int byte = first / 5 + ((i - first) & ((1 << log_run) - 1));
  const auto rest = static_cast<std::uint8_t>(b[byte] * kPowers[(i - first) >> log_run]);
  return rest * 3 >> 8;
}

int two_bits_of_32(Bytes b, int i) { return b[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }
int two_bits(Bytes b, int i) { return b[2 + i / 4] >> (i % 4 * 2) & 3; }
int one_bit(Bytes b, int i) { return b[2 + i / 8] >> (i % 8) & 1; }

}  // namespace

const WeightFormat tq1_0 = evenly_spaced<DType::tq1_0, 52, 1, ternary_digit>();
const WeightFormat tq2_0 = evenly_spaced<DType::tq2_0, 64, 1, two_bits_of_32>();
const WeightFormat q2_0 = evenly_spaced<DType::q2_0, 0, 1, two_bits>();
const WeightFormat q1_0 = evenly_spaced<DType::q1_0, 0, 2, one_bit>();

}  // namespace pagoda::formats
