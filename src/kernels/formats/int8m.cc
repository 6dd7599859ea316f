// Numbers of up to 8 bits of quantised folders with zero points or minima: a float scale, a float minimum,
// and 32 unsigned bytes. Not a file type: loader/quantized_integers.cc creates these blocks.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

WeightStep step(Bytes row, std::int64_t group) {
  const Bytes b = row + group * dtype_info(DType::int8m).block_bytes;
  return {.scale = load<float>(b), .minimum = load<float>(b + 4)};
}

void block(Bytes b, float* out) {
  const WeightStep of = step(b, 0);
  for (int i = 0; i < 32; ++i) out[i] = of.scale * static_cast<float>(b[8 + i]) + of.minimum;
}

}  // namespace

const WeightFormat int8m = {
    .decode = blocks<DType::int8m, block>, .int8_panels = PackedFormat::q8m, .step = step};

}  // namespace pagoda::formats
