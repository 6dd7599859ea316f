#pragma once
// Float32 to the stored types that `pagoda quantize` writes: the opposite of dequantize.h. Q4_0, Q5_0 and
// Q8_0 have the bits that GGML's and the gguf package's quantisers give; of K types, whose scales have no one
// right choice, each group's are those of the least squared error among a few. Threads: any.
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace pagoda {

// F32, F16, BF16, Q4_0, Q5_0, Q8_0, Q4_K, Q6_K.
bool can_quantize(DType dtype);

// `elements` finite values, whole blocks of them, to `out`.
void quantize(DType dtype, const float* values, std::int64_t elements, std::byte* out);

}  // namespace pagoda
