// IQ3_XXS and IQ3_S: 64 points of 4 sizes, a sign for each number, and a scale of 4 bits for 32 numbers times
// the block's. The sizes are 4 to 62, of IQ3_S the odd numbers up to 15. IQ3_XXS stores 7 of 8 signs; the
// eighth makes their number even.
#include "kernels/formats/formats.h"
#include "kernels/formats/iq_grids.h"

namespace pagoda::formats {
namespace {

float signed_size(float size, int signs, int i) { return (signs >> i & 1) != 0 ? -size : size; }

float scale_xxs(Bytes b, std::uint32_t signs) {
  return load_half(b) * (0.5f + static_cast<float>(signs >> 28)) * 0.5f;
}

void block_xxs(Bytes b, float* out) {
  for (int g = 0; g < 8; ++g) {
    const auto signs = load<std::uint32_t>(b + 66 + 4 * g);
    const float scale = scale_xxs(b, signs);
    for (int i = 0; i < 32; ++i) {
      const std::uint16_t point = kIq3XxsGrid[b[2 + 8 * g + i / 4]];
      const float size = scale * static_cast<float>(kIq3Values[point >> (4 * (i % 4)) & 7]);
      out[32 * g + i] = signed_size(size, even_signs(signs >> (7 * (i / 8))), i % 8);
    }
  }
}

WeightStep step_xxs(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::iq3_xxs).block_bytes;
  return WeightStep::symmetric(scale_xxs(b, load<std::uint32_t>(b + 66 + group % 8 * 4)));
}

// kIq3Values: three bits of the size, the highest for the sign.
void numbers_xxs(Bytes row, std::int64_t group, std::uint8_t* out) {
  const Bytes b = row + group / 8 * dtype_info(DType::iq3_xxs).block_bytes;
  const Bytes points = b + 2 + group % 8 * 8;
  const auto signs = load<std::uint32_t>(b + 66 + group % 8 * 4);
  for (int i = 0; i < 32; ++i) {
    const int size = kIq3XxsGrid[points[i / 4]] >> (4 * (i % 4)) & 7;
    const int sign = even_signs(signs >> (7 * (i / 8))) >> (i % 8) & 1;
    out[i] = static_cast<std::uint8_t>(size | sign << 3);
  }
}

float scale_s(Bytes b, int g) {
  return load_half(b) * static_cast<float>(1 + 2 * (b[106 + g / 2] >> (4 * (g % 2)) & 15));
}

// Half of the size of number i, rounded down: 0 to 7.
int half_size(Bytes b, int i) {
  const int p = i / 4, index = b[2 + p] | (b[66 + p / 8] >> (p % 8) & 1) << 8;
  return kIq3SGrid[index] >> (4 * (i % 4)) & 7;
}

void block_s(Bytes b, float* out) {
  for (int g = 0; g < 8; ++g) {
    const float scale = scale_s(b, g);
    for (int i = 32 * g; i < 32 * g + 32; ++i)
      out[i] = signed_size(scale * static_cast<float>(2 * half_size(b, i) + 1), b[74 + i / 8], i % 8);
  }
}

// The odd numbers of -15 to 15.
NibbleGroup nibbles_s(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::iq3_s).block_bytes;
  const auto g = static_cast<int>(group % 8);
  return nibbles_of(2 * scale_s(b, g), -15 * scale_s(b, g), [&](int i) {
    const int at = 32 * g + i, half = half_size(b, at);
    return (b[74 + at / 8] >> (at % 8) & 1) != 0 ? 7 - half : 8 + half;
  });
}

}  // namespace

const WeightFormat iq3_xxs = {.decode = blocks<DType::iq3_xxs, block_xxs>,
                              .int8_panels = PackedFormat::iq3,
                              .numbers = numbers_xxs,
                              .step = step_xxs};
const WeightFormat iq3_s = {
    .decode = blocks<DType::iq3_s, block_s>, .int8_panels = PackedFormat::q4, .nibbles = nibbles_s};

}  // namespace pagoda::formats
