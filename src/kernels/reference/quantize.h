#pragma once
// The 8-bit form of activations, with scales per 32 or 256 inputs, of weights, with scales per 32, and of
// keys and values. This is the definition that every fast path must reproduce exactly.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/dequantize.h"
#include "kernels/weight_format.h"
#include "tensor/linear_arithmetic.h"

namespace pagoda::reference {

constexpr int kQuantGroup = 32;

// Activations: q[i] = round(x[i] / scale), half to even, in -127..127. Returns scale = max|x| / 127.
inline float quantize_group(const float* x, int count, std::int8_t* q) {
  float largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
  for (int i = 0; i < count; ++i) q[i] = static_cast<std::int8_t>(std::nearbyint(x[i] * inverse));
  return largest / 127.0f;
}

// x / `scale`, rounded to a number of the given kind.
inline float input_number(InputNumber number, float x, float scale) {
  const float share = x / scale;
  if (number == InputNumber::int8) return std::nearbyint(std::clamp(share, -128.0f, 127.0f));
  const float within = std::clamp(share, -448.0f, 448.0f);
  const float unit = std::ldexp(1.0f, std::max(within != 0 ? std::ilogb(within) : -6, -6) - 3);
  return std::nearbyint(within / unit) * unit;
}
// Rounds a row to the numbers of `arithmetic`, which must not be is_own(). Returns the scale to apply to its
// products.
inline float quantize_inputs(const LinearArithmetic& arithmetic, std::span<float> row) {
  const bool groups = arithmetic.scales == InputScale::group, int8 = arithmetic.number == InputNumber::int8;
  const std::size_t step = groups ? static_cast<std::size_t>(arithmetic.group) : row.size();
  float scale = arithmetic.scale;
  for (std::size_t begin = 0; begin < row.size(); begin += step) {
    const std::span<float> part = row.subspan(begin, std::min(step, row.size() - begin));
    if (arithmetic.scales != InputScale::fixed) {
      float largest = 0;
      for (const float x : part) largest = std::max(largest, std::fabs(x));
      if (arithmetic.largest > 0) largest = std::min(largest, arithmetic.largest);
      scale = int8 ? (largest > 0 ? largest / 127.0f : 1.0f)
                   : std::max(largest / 448.0f, 1.0f / (448.0f * 512.0f));
    }
    for (float& x : part) x = input_number(arithmetic.number, x, scale) * (groups ? scale : 1.0f);
  }
  return groups ? 1.0f : scale;
}

// The step of 32 weights in panels of `format`: the step given by the file or, if the file has none that 8
// bits can hold, one derived from the values. row: as in the file; x: the 32 weights, or as many as there
// are.
inline WeightStep weight_step(PackedFormat format, DType dtype, const std::byte* row, std::int64_t group,
                              std::span<const float> x) {
  const WeightFormat& stored = weight_format(dtype);
  WeightStep step;
  if (stored.nibbles != nullptr) {
    const NibbleGroup nibbles = nibble_group(dtype, row, group);
    step = {nibbles.scale, nibbles.minimum};
  } else if (stored.step != nullptr) {
    step = stored.step(reinterpret_cast<const std::uint8_t*>(row), group);
  } else if (format == PackedFormat::q8m) {
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    step = {(*most - *least) / 255.0f, *least};
  } else {
    float largest = 0;
    for (const float value : x) largest = std::max(largest, std::fabs(value));
    step = WeightStep::symmetric(largest / 127.0f);
  }
  // The inverse would overflow; such weights are practically 0.
  constexpr float kLeast = 1e-37f;
  if (std::fabs(step.scale) < kLeast) step = {0, has_minimum_shares(format) ? step.minimum : 0};
  return step;
}
// u in w = scale * u + minimum.
inline float weight_inverse(WeightStep step) { return step.scale != 0 ? 1.0f / step.scale : 0.0f; }
inline float weight_byte(float x, WeightStep step, float inverse) {
  const float u = std::nearbyint((x - step.minimum) * inverse);
  return u > 0 ? std::min(u, 255.0f) : 0.0f;  // NaN becomes 0
}

// Panels store scales and minima in half precision, relative to a power of two chosen per row, so that rows
// of any magnitude keep half's eleven bits. A single scale for a whole row is the unit itself and keeps full
// precision.
inline float row_unit(float largest) {
  if (!(largest < std::numeric_limits<float>::infinity()))
    return largest;  // propagates to all products of the row
  return largest > 0 ? std::ldexp(1.0f, std::ilogb(largest)) : 1.0f;
}
inline float row_unit(std::span<const WeightStep> steps, bool has_minima) {
  float largest = 0;
  bool alike = !has_minima && steps.front().scale > 0;
  for (const WeightStep& step : steps) {
    largest = std::max(largest, std::fabs(step.scale));
    if (has_minima) largest = std::max(largest, std::fabs(step.minimum));
    alike = alike && step.scale == steps.front().scale;
  }
  return alike ? largest : row_unit(largest);
}
inline std::uint16_t unit_share(float value, float unit) { return float_to_half(value / unit); }

// One token's key or value of one head: x[i] = (u[i] - 128) times the returned scale. A row so small that
// dividing 127 by it might overflow becomes 0.
inline float quantize_kv(const float* x, int count, std::uint8_t* u) {
  float largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
  if (largest < 1e-30f) largest = 0;
  const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
  for (int i = 0; i < count; ++i) u[i] = static_cast<std::uint8_t>(std::nearbyint(x[i] * inverse) + 128.0f);
  return largest / 127.0f;
}

}  // namespace pagoda::reference
