// bitsandbytes' NF4: a float and 64 codes of kNf4Values; elements i and i + 16 of each 32 share a byte. Not a
// file type: loader/quantized_bitsandbytes.cc creates these blocks.
#include "kernels/formats/formats.h"
#include "tensor/small_floats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const auto scale = load<float>(b);
  std::uint8_t codes[32];
  for (int half = 0; half < 2; ++half) {
    split_nibbles(b + 4 + 16 * half, codes);
    for (const std::uint8_t code : codes) *out++ = kNf4Values[code] * scale;
  }
}

void codes(Bytes row, std::int64_t group, FloatCodes& out) {
  const Bytes b = row + group / 2 * dtype_info(DType::nf4).block_bytes;
  out.scale = load<float>(b);
  split_nibbles(b + 4 + group % 2 * 16, out.codes);
}

}  // namespace

const WeightFormat nf4 = {
    .decode = blocks<DType::nf4, block>, .bf16_panels = PackedFormat::nf4, .codes = codes};

}  // namespace pagoda::formats
