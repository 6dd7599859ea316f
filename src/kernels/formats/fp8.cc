// 8-bit floats of quantised folders: a float scale and 32 e4m3 numbers. Not a file type:
// loader/quantized_float8.cc creates these blocks.
#include "kernels/formats/formats.h"
#include "tensor/small_floats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const auto scale = load<float>(b);
  for (int i = 0; i < 32; ++i) out[i] = e4m3_value(b[4 + i]) * scale;
}

void codes(Bytes row, std::int64_t group, FloatCodes& out) {
  const Bytes b = row + group * dtype_info(DType::fp8).block_bytes;
  out.scale = load<float>(b);
  std::memcpy(out.codes, b + 4, sizeof out.codes);
}

}  // namespace

const WeightFormat fp8 = {
    .decode = blocks<DType::fp8, block>, .bf16_panels = PackedFormat::e4m3, .codes = codes};

}  // namespace pagoda::formats
