#pragma once
// WeightFormat: everything that the kernels know of one stored type of weights. Adding a type is a row in
// tensor/dtypes.def, which says what a block measures, and a file in kernels/formats/, which says what it
// means and in which panels it is multiplied. Not here: how panels are laid out and multiplied, which is the
// backend's (cpu/linear_tile.h has a table of those).
// Source: GGML's ggml-common.h for the block formats.
#include <cstdint>

#include "kernels/dequantize.h"
#include "tensor/dtype.h"

namespace pagoda {

// How weights lie in a PackedLinear: the layout of its panels.
enum class PackedFormat : std::uint8_t {
  plain,  // reference: float32 [N][K]
  f32,    // float32 [N/16][K][16]
  bf16,   // bfloat16 [N/16][K/2][16][2]
  q8,     // d for 32 inputs of an output: w = d * (u - 128), u in 0..255
  q4,     // d and m for 32 inputs: w = d * n + m, n in 0..15, two to a byte
  f16,    // float16 [N/16][K][16]
  q8m,    // d and m for 32 inputs: w = d * u + m, u in 0..255
};
inline constexpr int kNumPackedFormats = 7;

// 32 of a row's weights in 8 bits: w = scale * u + minimum, u in 0..255. Where the weights have no minimum of
// their own it is -128 * scale.
struct WeightStep {
  float scale = 0, minimum = 0;
  static WeightStep symmetric(float scale) { return {scale, -128.0f * scale}; }
};

struct WeightFormat {
  // The reference dequantiser: `elements`, whole blocks of them, to float32.
  void (*decode)(const std::uint8_t* data, std::int64_t elements, float* out) = nullptr;
  // The panels that 8-bit products take it in. Plain products take all types as f32, bf16 or f16.
  PackedFormat int8_panels = PackedFormat::q8;
  // q4 panels: 32 of a row's weights as scale, minimum and 4-bit numbers.
  NibbleGroup (*nibbles)(const std::uint8_t* row, std::int64_t group) = nullptr;
  // The step in which 32 of a row's weights lie in 8-bit panels, so that these hold the file's own numbers.
  // Null: the weights' own range decides.
  WeightStep (*step)(const std::uint8_t* row, std::int64_t group) = nullptr;
};

const WeightFormat& weight_format(DType dtype);

}  // namespace pagoda
