#pragma once
// The 8-bit form of activations and weights: groups of 32 with one scale; or groups of 64 and, of weights,
// whole rows; and of keys and values. The meaning that every fast path must reproduce exactly.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/dequantize.h"

namespace pagoda::reference {

constexpr int kQuantGroup = 32, kWideQuantGroup = 64;

// Activations: q[i] = round(x[i] / scale), half to even, in -127..127; returns scale = max|x| / 127.
inline float quantize_group(const float* x, int count, std::int8_t* q) {
  float largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
  for (int i = 0; i < count; ++i) q[i] = static_cast<std::int8_t>(std::nearbyint(x[i] * inverse));
  return largest / 127.0f;
}

// Weights: the same, with the scale rounded to f16, which is what the packed form holds.
inline float quantize_weight_group(const float* x, int count, std::int8_t* q) {
  float largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float scale = half_to_float(float_to_half(largest / 127.0f));
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  for (int i = 0; i < count; ++i) {
    q[i] = static_cast<std::int8_t>(std::clamp(std::nearbyint(x[i] * inverse), -127.0f, 127.0f));
  }
  return scale;
}

// Weights with one scale for a row of k: returns it; each is row_weight(x, inverse) times it.
inline float row_scale(const float* x, std::int64_t k, float* inverse) {
  float largest = 0;
  for (std::int64_t i = 0; i < k; ++i) largest = std::max(largest, std::fabs(x[i]));
  *inverse = largest > 0 ? 127.0f / largest : 0.0f;
  return largest / 127.0f;
}
inline float row_weight(float x, float inverse) { return std::nearbyint(x * inverse); }

// One token's key or value of one head: x[i] is (u[i] - 128) times the scale that is returned. A row so small
// that 127 divided by it might overflow is 0.
inline float quantize_kv(const float* x, int count, std::uint8_t* u) {
  float largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
  if (largest < 1e-30f) largest = 0;
  const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
  for (int i = 0; i < count; ++i) u[i] = static_cast<std::uint8_t>(std::nearbyint(x[i] * inverse) + 128.0f);
  return largest / 127.0f;
}

}  // namespace pagoda::reference
