#pragma once
// Rows of weights in the numbers that `pagoda quantize` writes into Hugging Face folders: compressed-tensors'
// layouts of codes, and the scales that go beside them. Not here: GGUF's blocks (quantize.h). Threads: any.
// Source: compressed-tensors' quantization and compressors; OCP Microscaling Formats 1.0 for MXFP4.
#include <cstddef>
#include <cstdint>
#include <span>

namespace pagoda {

enum class RowScheme : std::uint8_t {
  int8,   // a byte each, one bfloat16 scale for the row
  int4,   // eight to a 32-bit word, counted from 8, a bfloat16 scale for each group
  e4m3,   // a byte each, one bfloat16 scale for the row
  mxfp4,  // two to a byte, a power of two for 32 of them
};

// Bytes that a row of k numbers takes; k is whole groups. `group`: int4's.
std::int64_t row_code_bytes(RowScheme scheme, std::int64_t k);
std::int64_t row_scale_bytes(RowScheme scheme, std::int64_t k, std::int64_t group);

// x: finite.
void quantize_row(RowScheme scheme, std::span<const float> x, std::int64_t group, std::byte* codes,
                  std::byte* scales);

}  // namespace pagoda
