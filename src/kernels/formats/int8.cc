// 8-bit numbers of quantised folders without zero points: a float scale and 32 signed bytes. Not a file type:
// loader/quantized_integers.cc creates these blocks.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const auto scale = load<float>(b);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(static_cast<std::int8_t>(b[4 + i]));
}

WeightStep step(Bytes row, std::int64_t group) {
  return WeightStep::symmetric(load<float>(row + group * dtype_info(DType::int8).block_bytes));
}

}  // namespace

const WeightFormat int8 = {.decode = blocks<DType::int8, block>, .step = step};

}  // namespace pagoda::formats
