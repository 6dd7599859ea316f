// IQ4_NL: a half-precision scale and 32 4-bit indices into a table of values.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const float d = load_half(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(kIq4Values[b[2 + i] & 15]);
    out[i + 16] = d * static_cast<float>(kIq4Values[b[2 + i] >> 4]);
  }
}

WeightStep step(Bytes row, std::int64_t group) {
  return WeightStep::symmetric(load_half(row + group * dtype_info(DType::iq4_nl).block_bytes));
}

void numbers(Bytes row, std::int64_t group, std::uint8_t* out) {
  split_nibbles(row + group * dtype_info(DType::iq4_nl).block_bytes + 2, out);
}

}  // namespace

const WeightFormat iq4_nl = {.decode = blocks<DType::iq4_nl, block>,
                             .int8_panels = PackedFormat::iq4,
                             .numbers = numbers,
                             .step = step};

}  // namespace pagoda::formats
