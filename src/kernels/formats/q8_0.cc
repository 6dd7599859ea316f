// Q8_0: a half-precision scale and 32 signed bytes.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const float d = load_half(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(b[2 + i]));
}

WeightStep step(Bytes row, std::int64_t group) {
  return WeightStep::symmetric(load_half(row + group * dtype_info(DType::q8_0).block_bytes));
}

}  // namespace

const WeightFormat q8_0 = {.decode = blocks<DType::q8_0, block>, .step = step};

}  // namespace pagoda::formats
