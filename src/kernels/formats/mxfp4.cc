// MXFP4 (OCP microscaling): a power of two and 32 4-bit floats: one sign bit, two exponent bits, one fraction
// bit. Values are kept doubled here, so the power is halved.
#include <bit>

#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

float scale_of(Bytes b) {
  const std::uint32_t e = b[0];  // 2^(e - 128); subnormal below 2^-126
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

void block(Bytes b, float* out) {
  const float d = scale_of(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(kFp4Twice[b[1 + i] & 15]);
    out[i + 16] = d * static_cast<float>(kFp4Twice[b[1 + i] >> 4]);
  }
}

WeightStep step(Bytes row, std::int64_t group) {
  return WeightStep::symmetric(scale_of(row + group * dtype_info(DType::mxfp4).block_bytes));
}

void numbers(Bytes row, std::int64_t group, std::uint8_t* out) {
  split_nibbles(row + group * dtype_info(DType::mxfp4).block_bytes + 1, out);
}

}  // namespace

const WeightFormat mxfp4 = {.decode = blocks<DType::mxfp4, block>,
                            .int8_panels = PackedFormat::fp4,
                            .numbers = numbers,
                            .step = step};

}  // namespace pagoda::formats
