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
  q4s,    // d for 32 inputs: w = d * (n - 8), n in 0..15
  q4g,    // d and m for 128 inputs: w = d * n + m
  q5s,    // d for 32 inputs: w = d * (n - 16), n in 0..31
  q5m,    // d and m for 32 inputs: w = d * n + m, n in 0..31
  iq4,    // d for 32 inputs: w = d * v, v out of IQ4_NL's table
  fp4,    // d for 32 inputs: w = d * v, v out of kFp4Twice
  // The numbers, scales and minima of GGUF's K types as the file has them.
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_xs,
  // IQ3 types: for 32 inputs w = d * scale * v, v out of kIq3SValues, or d / 4 * scale * v, v out of
  // kIq3XxsValues.
  iq3_xxs,
  iq3_s,
  // IQ2 and IQ1 types, TQ1_0 and TQ2_0, likewise: for 16 inputs w = d / 8 * scale * v, v out of kIq2Values or
  // kIq1Values.
  iq2,
  iq1,
  // These types as the file's points and signs, for processors that look up 64 bytes at once.
  iq2_xxs_points,
  iq2_xs_points,
  iq3_xxs_points,
  // 8-bit or 4-bit floats of quantised folders, which become bf16 on their way into products of bf16.
  e4m3,   // a float for 128 inputs: w = scale * e4m3
  nf4,    // a float for 64 inputs: w = scale * v, v out of kNf4Values
  nvfp4,  // an e4m3 scale for 16 inputs: w = scale * v, v out of kE2m1Values
  // 8-bit numbers with one float scale an output, for rows in int8 with one scale each: products are sums of
  // integers over all inputs.
  i8,  // int8 [N/16][K/4][16][4]: w = scale * n, n in -128..127
  // Numbers in 8 bits with the scales and minima of the K types, for 32 or for 16 inputs. In a tile's scratch
  // only: what their strips are widened to.
  wide32,
  wide32m,
  wide16,
  wide16m,
};
inline constexpr int kNumPackedFormats = 34;
// Sums of so many products of PackedFormat::i8, of numbers down to -128, are below 2^31.
inline constexpr std::int64_t kMostIntegerInputs = (std::int64_t{1} << 17) - 1;
// Whether weights for 8-bit products have a minimum beside their scale, as shares of the output's unit.
constexpr bool has_minimum_shares(PackedFormat format) {
  return format == PackedFormat::q4 || format == PackedFormat::q4g || format == PackedFormat::q5m ||
         format == PackedFormat::q8m;
}
// Whether the file's own numbers and scales lie there, so that no weight is another than in the file. They
// are multiplied by rows in int8 with one scale for kSuperBlockInputs, as GGML does, whose sums
// are integers over all of these.
constexpr bool keeps_file_numbers(PackedFormat format) {
  return format >= PackedFormat::q2_k && format <= PackedFormat::iq3_xxs_points;
}

// The values of the 4-bit numbers of IQ4_NL and IQ4_XS.
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
// The values of IQ2 types: their sizes, then the same below zero, the file's points and signs as numbers of 3
// bits. Those of IQ1 types, -1, 0 and 1 plus or minus an eighth, in eighths; and -1 to 2, which are TQ1_0's
// and TQ2_0's.
inline constexpr std::int8_t kIq2Values[16] = {8, 25, 43, 0, -8, -25, -43, 0};
inline constexpr std::int8_t kIq1Values[16] = {-9, -7, -1, 0, 1, 2, 7, 9};
inline constexpr float kIqShare = 0.125f;
inline constexpr float kIq3XxsShare = 0.25f;
// Those of IQ3 types as numbers of 4 bits: the size, then the sign.
inline constexpr std::int8_t kIq3XxsValues[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                                  -4, -12, -20, -28, -36, -44, -52, -62};
inline constexpr std::int8_t kIq3SValues[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
// Twice the values of the 4-bit floats of MXFP4 and NVFP4: one bit for the sign, two for the exponent, one
// for the fraction.
inline constexpr std::int8_t kFp4Twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline constexpr std::int64_t kSuperBlockInputs = 256;
// Weights of a K type as the file has them: w = d * scale * (number - zero) - dmin * minimum, with a
// scale and perhaps a minimum for 32 neighbours or for 16. IQ types: the number's value out of a table.
struct SuperBlock {
  std::uint16_t d = 0, dmin = 0;  // in half precision
  std::int8_t scales[16] = {};
  std::uint8_t minima[16] = {};
  std::uint8_t numbers[kSuperBlockInputs];
};

// Weights of IQ2 and IQ3 types as the file has them: points of a table, eight inputs each or, of IQ3 types,
// four. A bit of `signs` is set where a weight is negative. A scale s, of 16 inputs, means 2 s + 1.
struct PointBlock {
  std::uint16_t d = 0;  // in half precision
  std::uint16_t points[kSuperBlockInputs / 4] = {};
  std::uint8_t signs[kSuperBlockInputs / 8] = {};
  std::uint8_t scales[kSuperBlockInputs / 16] = {};
};

// 32 of a row's weights in 8 bits: w = scale * u + minimum, u in 0..255. Where the weights have no minimum of
// their own it is -128 * scale.
struct WeightStep {
  float scale = 0, minimum = 0;
  static WeightStep symmetric(float scale) { return {scale, -128.0f * scale}; }
};

// 32 of a row's weights as codes of floats, and their scale: one number, or for each 16 an e4m3 number times
// a factor, or divided by one.
struct FloatCodes {
  std::uint8_t codes[32];
  float scale = 0;
  std::uint8_t scales[2] = {};
  float factor = 1, divisor = 1;
};

struct WeightFormat {
  // The reference dequantiser: `elements`, whole blocks of them, to float32.
  void (*decode)(const std::uint8_t* data, std::int64_t elements, float* out) = nullptr;
  // The panels that 8-bit products take it in. Plain products take all types as f32 or f16.
  PackedFormat int8_panels = PackedFormat::q8;
  // The panels of products in bfloat16.
  PackedFormat bf16_panels = PackedFormat::bf16;
  // Panels of codes of floats.
  void (*codes)(const std::uint8_t* row, std::int64_t group, FloatCodes& out) = nullptr;
  // Panels of K types: a block.
  void (*super_block)(const std::uint8_t* block, SuperBlock& out) = nullptr;
  // Panels of points, and what reads a block for them; plain: the type has none.
  PackedFormat point_panels = PackedFormat::plain;
  void (*points)(const std::uint8_t* block, PointBlock& out) = nullptr;
  // Panels of narrow numbers that are not evenly spaced, or not four bits: those of 32 weights, whose step
  // says the scale and minimum.
  void (*numbers)(const std::uint8_t* row, std::int64_t group, std::uint8_t* out) = nullptr;
  // q4 panels: 32 of a row's weights as scale, minimum and 4-bit numbers.
  NibbleGroup (*nibbles)(const std::uint8_t* row, std::int64_t group) = nullptr;
  // The step in which 32 of a row's weights lie in 8-bit panels, so that these hold the file's own numbers.
  // Null: the weights' own range decides.
  WeightStep (*step)(const std::uint8_t* row, std::int64_t group) = nullptr;
};

const WeightFormat& weight_format(DType dtype);

}  // namespace pagoda
