// IQ2_XXS, IQ2_XS and IQ2_S: 32 points of 8 sizes (8, 25 or 43), a sign for each number, and scales of 4 bits
// and a half for 32 or 16 numbers, times an eighth of the block's. The first two store 7 signs; the eighth
// makes their number even.
#include "kernels/formats/formats.h"
#include "kernels/formats/iq_grids.h"

namespace pagoda::formats {
namespace {

void put(std::uint16_t point, int signs, float scale, float* out) {
  for (int i = 0; i < 8; ++i) {
    const float size = scale * static_cast<float>(kIq2Values[point >> (2 * i) & 3]);
    out[i] = (signs >> i & 1) != 0 ? -size : size;
  }
}

float scale_of(Bytes b, int scale) { return load_half(b) * (0.5f + static_cast<float>(scale)) * 0.25f; }

void block_xxs(Bytes b, float* out) {
  for (int g = 0; g < 8; ++g) {
    const Bytes points = b + 2 + 8 * g;
    const auto signs = load<std::uint32_t>(points + 4);
    const float scale = scale_of(b, static_cast<int>(signs >> 28));
    for (int p = 0; p < 4; ++p)
      put(kIq2XxsGrid[points[p]], even_signs(signs >> (7 * p)), scale, out + 32 * g + 8 * p);
  }
}

WeightStep step_xxs(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::iq2_xxs).block_bytes;
  return WeightStep::symmetric(scale_of(b, b[9 + group % 8 * 8] >> 4));
}

// kIq2Values: two bits of the size, the highest for the sign.
void numbers_xxs(Bytes row, std::int64_t group, std::uint8_t* out) {
  const Bytes points = row + group / 8 * dtype_info(DType::iq2_xxs).block_bytes + 2 + group % 8 * 8;
  const auto signs = load<std::uint32_t>(points + 4);
  for (int i = 0; i < 32; ++i) {
    const int size = kIq2XxsGrid[points[i / 8]] >> (2 * (i % 8)) & 3;
    const int sign = even_signs(signs >> (7 * (i / 8))) >> (i % 8) & 1;
    out[i] = static_cast<std::uint8_t>(size | sign << 3);
  }
}

int scale_bits(Bytes scales, int p) { return scales[p / 4] >> (4 * (p / 2 % 2)) & 15; }

void block_xs(Bytes b, float* out) {
  for (int p = 0; p < 32; ++p) {
    const auto number = load<std::uint16_t>(b + 2 + 2 * p);
    put(kIq2XsGrid[number & 511], even_signs(number >> 9), scale_of(b, scale_bits(b + 66, p)), out + 8 * p);
  }
}

void block_s(Bytes b, float* out) {
  const Bytes signs = b + 34, high = b + 66, scales = b + 74;
  for (int p = 0; p < 32; ++p) {
    const int index = b[2 + p] | (high[p / 4] >> (2 * (p % 4)) & 3) << 8;
    put(kIq2SGrid[index], signs[p], scale_of(b, scale_bits(scales, p)), out + 8 * p);
  }
}

}  // namespace

const WeightFormat iq2_xxs = {.decode = blocks<DType::iq2_xxs, block_xxs>,
                              .int8_panels = PackedFormat::iq2,
                              .numbers = numbers_xxs,
                              .step = step_xxs};
const WeightFormat iq2_xs = {.decode = blocks<DType::iq2_xs, block_xs>};
const WeightFormat iq2_s = {.decode = blocks<DType::iq2_s, block_s>};

}  // namespace pagoda::formats
