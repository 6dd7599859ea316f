#pragma once
// The 8-bit form of activations, in groups of 64 with one scale, of weights, in whole rows, and of keys and
// values. The meaning that every fast path must reproduce exactly.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/dequantize.h"

namespace pagoda::reference {

constexpr int kQuantGroup = 64;

// Activations: q[i] = round(x[i] / scale), half to even, in -127..127; returns scale = max|x| / 127.
inline float quantize_group(const float* x, int count, std::int8_t* q) {
  float largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
  for (int i = 0; i < count; ++i) q[i] = static_cast<std::int8_t>(std::nearbyint(x[i] * inverse));
  return largest / 127.0f;
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

// 4-bit weights w = scale * n + minimum of a row whose scale is largest / 127, largest being the row's
// largest nibble_range: w / (largest / 127) + 128 = (n * step + start) >> 8, everything modulo 2^16.
struct NibbleStep {
  std::uint16_t step = 0, start = 0;
};
inline float nibble_range(float scale, float minimum) {
  return std::max(std::fabs(minimum), std::fabs(minimum + 15.0f * scale));
}
inline NibbleStep nibble_step(float scale, float minimum, float largest) {
  // A file may say anything: what is not a number gets weights of zero, and a row scale that shows it.
  if (!(largest > 1e-30f) || !(largest < std::numeric_limits<float>::infinity())) return {0, 128 << 8};
  const float unit = 127.0f * 256.0f / largest;
  const auto bits = [](float x) {  // floor(x + 0.5)
    if (!(std::fabs(x) < 65536.0f)) return std::uint16_t{0};
    return static_cast<std::uint16_t>(static_cast<std::int32_t>(x + 65536.5f) - 65536);
  };
  return {bits(scale * unit), bits(minimum * unit + 128.0f * 256.0f + 128.0f)};
}
inline int nibble_weight(int n, NibbleStep group) {  // -127..127
  return static_cast<std::uint16_t>(n * group.step + group.start) / 256 - 128;
}

}  // namespace pagoda::reference
