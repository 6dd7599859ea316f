// NVFP4 of quantised folders: two floats, by which the scales are multiplied and divided, 4 e4m3 scales and
// 64 codes of kE2m1Values; elements i and i + 16 of each 32 share a byte. Not a file type:
// loader/quantized_float4.cc creates these blocks.
#include "kernels/formats/formats.h"
#include "tensor/small_floats.h"

namespace pagoda::formats {
namespace {

void codes(Bytes row, std::int64_t group, FloatCodes& out) {
  const Bytes b = row + group / 2 * dtype_info(DType::nvfp4_scaled).block_bytes;
  out.factor = load<float>(b);
  out.divisor = load<float>(b + 4);
  std::memcpy(out.scales, b + 8 + group % 2 * 2, sizeof out.scales);
  split_nibbles(b + 12 + group % 2 * 16, out.codes);
}

void block(Bytes b, float* out) {
  FloatCodes group;
  for (int half = 0; half < 2; ++half) {
    codes(b, half, group);
    for (int i = 0; i < 32; ++i)
      *out++ =
          kE2m1Values[group.codes[i]] * (e4m3_value(group.scales[i / 16]) * group.factor / group.divisor);
  }
}

}  // namespace

const WeightFormat nvfp4_scaled = {
    .decode = blocks<DType::nvfp4_scaled, block>, .bf16_panels = PackedFormat::nvfp4, .codes = codes};

}  // namespace pagoda::formats
