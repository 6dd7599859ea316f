#pragma once
// Rows of weights in the formats that `pagoda quantize` writes into Hugging Face folders: compressed-tensors'
// layouts of codes, with their scales. Not here: GGUF's blocks (quantize.h). Threads: any. Source:
// compressed-tensors' quantization and compressors; OCP Microscaling Formats 1.0 for MXFP4.
#include <cstddef>
#include <cstdint>
#include <span>

namespace pagoda {

enum class RowScheme : std::uint8_t {
  int8,   // one byte each, one bfloat16 scale per row
  int4,   // eight per 32-bit word, offset by 8, one bfloat16 scale per group
  e4m3,   // one byte each, one bfloat16 scale per row
  mxfp4,  // two per byte, a power-of-two scale per 32
};

// Bytes of a row of k numbers, which must be whole groups. `group`: group size, for int4.
std::int64_t row_code_bytes(RowScheme scheme, std::int64_t k);
std::int64_t row_scale_bytes(RowScheme scheme, std::int64_t k, std::int64_t group);

// x must be finite.
void quantize_row(RowScheme scheme, std::span<const float> x, std::int64_t group, std::byte* codes,
                  std::byte* scales);

}  // namespace pagoda
