#pragma once
// WeightFormat: everything that the kernels know about one stored type of weights. Adding a type takes a row
// in tensor/dtypes.def, which gives the block size, and a file in kernels/formats/, which defines the meaning
// and the panels used for products. Not here: how panels are laid out and multiplied, which belongs to the
// backend (cpu/linear_tile.h has a table).
// Source: GGML's ggml-common.h for the block formats.
#include <cstdint>

#include "kernels/dequantize.h"
#include "tensor/dtype.h"

namespace pagoda {

// The layout of a PackedLinear's panels.
enum class PackedFormat : std::uint8_t {
  plain,  // reference: float32 [N][K]
  f32,    // float32 [N/16][K][16]
  bf16,   // bfloat16 [N/16][K/2][16][2]
  q8,     // d per 32 inputs of an output: w = d * (u - 128), u in 0..255
  q4,     // d and m per 32 inputs: w = d * n + m, n in 0..15, two per byte
  f16,    // float16 [N/16][K][16]
  q8m,    // d and m per 32 inputs: w = d * u + m, u in 0..255
  q4s,    // d per 32 inputs: w = d * (n - 8), n in 0..15
  q4g,    // d and m per 128 inputs: w = d * n + m
  q5s,    // d per 32 inputs: w = d * (n - 16), n in 0..31
  q5m,    // d and m per 32 inputs: w = d * n + m, n in 0..31
  iq4,    // d per 32 inputs: w = d * v, v from IQ4_NL's table
  fp4,    // d per 32 inputs: w = d * v, v from kFp4Twice
  // The numbers, scales and minima of GGUF's K types, exactly as in the file.
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_xs,
  // IQ3 types: w = d * scale * v per 32 inputs, v from kIq3SValues, or d / 4 * scale * v, v from
  // kIq3XxsValues.
  iq3_xxs,
  iq3_s,
  // Likewise IQ2 and IQ1 types, TQ1_0 and TQ2_0: w = d / 8 * scale * v per 16 inputs, v from kIq2Values or
  // kIq1Values.
  iq2,
  iq1,
  // The same types as the file's points and signs, for processors with 64-byte table lookups.
  iq2_xxs_points,
  iq2_xs_points,
  iq3_xxs_points,
  // 8-bit or 4-bit floats of quantised folders, converted to bf16 on the way into bf16 products.
  e4m3,   // one float per 128 inputs: w = scale * e4m3
  nf4,    // one float per 64 inputs: w = scale * v, v from kNf4Values
  nvfp4,  // one e4m3 scale per 16 inputs: w = scale * v, v from kE2m1Values
  // 8-bit numbers with one float scale per output, for int8 rows with one scale each: products are integer
  // sums over all inputs.
  i8,  // int8 [N/16][K/4][16][4]: w = scale * n, n in -128..127
  // 8-bit numbers with the scales and minima of the K types, per 32 or per 16 inputs. Only in a tile's
  // scratch: the form to which strips of K types are widened.
  wide32,
  wide32m,
  wide16,
  wide16m,
};
inline constexpr int kNumPackedFormats = 34;
// Sums of this many products of PackedFormat::i8, with numbers down to -128, stay below 2^31.
inline constexpr std::int64_t kMostIntegerInputs = (std::int64_t{1} << 17) - 1;
// True if weights for 8-bit products have a minimum beside their scale, as shares of the output's unit.
constexpr bool has_minimum_shares(PackedFormat format) {
  return format == PackedFormat::q4 || format == PackedFormat::q4g || format == PackedFormat::q5m ||
         format == PackedFormat::q8m;
}
// True if the panels hold the file's own numbers and scales, so that every weight is exactly as in the file.
// They are multiplied by int8 rows with one scale per kSuperBlockInputs, as in GGML, whose sums are integers
// over all of these inputs.
constexpr bool keeps_file_numbers(PackedFormat format) {
  return format >= PackedFormat::q2_k && format <= PackedFormat::iq3_xxs_points;
}

// The values of IQ4_NL's and IQ4_XS's 4-bit numbers.
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
// kIq2Values: the magnitudes of IQ2 types, then their negatives: the file's points and signs as 3-bit
// numbers. kIq1Values: for IQ1 types -1, 0 and 1, each plus or minus an eighth, in eighths; and -1 to 2 for
// TQ1_0 and TQ2_0.
inline constexpr std::int8_t kIq2Values[16] = {8, 25, 43, 0, -8, -25, -43, 0};
inline constexpr std::int8_t kIq1Values[16] = {-9, -7, -1, 0, 1, 2, 7, 9};
inline constexpr float kIqShare = 0.125f;
inline constexpr float kIq3XxsShare = 0.25f;
// The values of IQ3 types as 4-bit numbers: the magnitude, then the sign.
inline constexpr std::int8_t kIq3XxsValues[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                                  -4, -12, -20, -28, -36, -44, -52, -62};
inline constexpr std::int8_t kIq3SValues[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
// Twice the values of MXFP4's and NVFP4's 4-bit floats: one sign bit, two exponent bits, one fraction bit.
inline constexpr std::int8_t kFp4Twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline constexpr std::int64_t kSuperBlockInputs = 256;
// Weights of a K type as in the file: w = d * scale * (number - zero) - dmin * minimum, with a scale and
// possibly a minimum per 32 or 16 adjacent weights. IQ types: the number's table value instead.
struct SuperBlock {
  std::uint16_t d = 0, dmin = 0;  // in half precision
  std::int8_t scales[16] = {};
  std::uint8_t minima[16] = {};
  std::uint8_t numbers[kSuperBlockInputs];
};

// Weights of IQ2 and IQ3 types as in the file: indices of table points, each covering eight inputs (IQ3
// types: four). A bit of `signs` is set for a negative weight. A scale s, for 16 inputs, means 2 s + 1.
struct PointBlock {
  std::uint16_t d = 0;  // in half precision
  std::uint16_t points[kSuperBlockInputs / 4] = {};
  std::uint8_t signs[kSuperBlockInputs / 8] = {};
  std::uint8_t scales[kSuperBlockInputs / 16] = {};
};

// 32 weights of a row in 8 bits: w = scale * u + minimum, u in 0..255. For weights without a minimum of their
// own, minimum is -128 * scale.
struct WeightStep {
  float scale = 0, minimum = 0;
  static WeightStep symmetric(float scale) { return {scale, -128.0f * scale}; }
};

// 32 weights of a row as codes of floats, and their scale: one number, or one e4m3 number per 16 weights,
// times a factor or divided by a divisor.
struct FloatCodes {
  std::uint8_t codes[32];
  float scale = 0;
  std::uint8_t scales[2] = {};
  float factor = 1, divisor = 1;
};

struct WeightFormat {
  // The reference dequantiser: `elements`, a whole number of blocks, to float32.
  void (*decode)(const std::uint8_t* data, std::int64_t elements, float* out) = nullptr;
  // The panels for 8-bit products. Plain products take all types as f32 or f16.
  PackedFormat int8_panels = PackedFormat::q8;
  // The panels for bfloat16 products.
  PackedFormat bf16_panels = PackedFormat::bf16;
  // For panels of float codes.
  void (*codes)(const std::uint8_t* row, std::int64_t group, FloatCodes& out) = nullptr;
  // For panels of K types: reads one block.
  void (*super_block)(const std::uint8_t* block, SuperBlock& out) = nullptr;
  // The point panels, and the function that reads a block for them; plain: the type has no points.
  PackedFormat point_panels = PackedFormat::plain;
  void (*points)(const std::uint8_t* block, PointBlock& out) = nullptr;
  // For panels of narrow numbers that are not evenly spaced, or not four bits wide: the numbers of 32
  // weights; `step` gives the scale and minimum.
  void (*numbers)(const std::uint8_t* row, std::int64_t group, std::uint8_t* out) = nullptr;
  // For q4 panels: 32 weights of a row as scale, minimum and 4-bit numbers.
  NibbleGroup (*nibbles)(const std::uint8_t* row, std::int64_t group) = nullptr;
  // The step of 32 weights of a row in 8-bit panels, chosen so that the panels hold the file's own numbers.
  // Null: the step follows from the range of the weights.
  WeightStep (*step)(const std::uint8_t* row, std::int64_t group) = nullptr;
};

const WeightFormat& weight_format(DType dtype);

}  // namespace pagoda
