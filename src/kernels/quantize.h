#pragma once
// Float32 to the stored types that `pagoda quantize` writes: the inverse of dequantize.h. Q4_0, Q5_0 and Q8_0
// match the quantisers of GGML and the gguf package bit for bit. For K types, whose scales have no single
// correct choice, each group takes the scales with the least squared error among a few candidates. Threads:
// any.
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace pagoda {

// F32, F16, BF16, Q4_0, Q5_0, Q8_0, Q4_K, Q6_K.
bool can_quantize(DType dtype);

// Quantises `elements` finite values, a whole number of blocks, into `out`.
void quantize(DType dtype, const float* values, std::int64_t elements, std::byte* out);

}  // namespace pagoda
