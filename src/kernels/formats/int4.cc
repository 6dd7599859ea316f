// Numbers of up to 4 bits of quantised folders (AWQ, GPTQ, compressed-tensors, MLX): a float scale, a float
// minimum, and 32 codes. Not a file type: loader/quantized_integers.cc creates these blocks.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const auto scale = load<float>(b), minimum = load<float>(b + 4);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(b[8 + i] & 15) + minimum;
    out[i + 16] = scale * static_cast<float>(b[8 + i] >> 4) + minimum;
  }
}

NibbleGroup nibbles(Bytes row, std::int64_t group) {
  const Bytes b = row + group * dtype_info(DType::int4).block_bytes;
  NibbleGroup out{.scale = load<float>(b), .minimum = load<float>(b + 4)};
  std::memcpy(out.nibbles, b + 8, sizeof out.nibbles);
  return out;
}

}  // namespace

const WeightFormat int4 = {
    .decode = blocks<DType::int4, block>, .int8_panels = PackedFormat::q4, .nibbles = nibbles};

}  // namespace pagoda::formats
