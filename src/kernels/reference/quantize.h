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
// largest nibble_range: w / (largest / 127) + 128 = base + ((256 * n + start) * step + 2^14 >> 15), in
// 0..255. The base is apart so that it can be multiplied once for all weights that have it.
struct NibbleStep {
  std::int16_t step = 0;
  std::uint8_t base = 128, start = 0;
};
inline int nibble_weight(int n, NibbleStep group) {  // -128..127
  return (((256 * n + group.start) * group.step + (1 << 14)) >> 15) + group.base - 128;
}
inline float nibble_range(float scale, float minimum) {
  return std::max(std::fabs(minimum), std::fabs(minimum + 15.0f * scale));
}
// With few branches: those on a file's values would not be foreseen, and packing has millions of groups.
inline NibbleStep nibble_step(float scale, float minimum, float largest) {
  // A file may say anything: what is not a number gets weights of zero, and a row scale that shows it.
  const bool has_unit = largest > 1e-30f && largest < std::numeric_limits<float>::infinity();
  const float unit = has_unit ? 127.0f / largest : 0.0f;
  const bool is_number = std::fabs(scale * unit) < 32.0f && std::fabs(minimum * unit) < 512.0f;
  const float slope = is_number ? scale * unit : 0.0f, first = is_number ? minimum * unit + 128.0f : 128.0f;
  const auto whole = [](float x) { return static_cast<std::int32_t>(x + 65536.0f) - 65536; };  // rounds down
  const std::int32_t step = whole(slope * 128.0f + 0.5f), size = step < 0 ? -step : step;
  // What the step is rounded by is made up for in the middle.
  const float at_zero = first + 7.5f * (slope - static_cast<float>(step) * (1.0f / 128.0f));
  // Towards the base the way the step goes; the start reaches as far as 255 / 256 of a step.
  const float upwards = step < 0 ? -at_zero : at_zero;
  const std::int32_t below = whole(upwards);
  const float rest = upwards - static_cast<float>(below);
  const bool above = rest > 0.5f + static_cast<float>(size) * (0.5f * 255.0f / 32768.0f);
  const std::int32_t base = below + (above ? 1 : 0);
  const float parts = (above ? 0.0f : rest) * 32768.0f / static_cast<float>(size < 1 ? 1 : size) + 0.5f;
  const auto start = static_cast<std::int32_t>(parts < 255.0f ? parts : 255.0f);
  NibbleStep out = {.step = static_cast<std::int16_t>(step), .start = static_cast<std::uint8_t>(start)};
  // All 16 weights fit into a byte.
  const std::int32_t one = nibble_weight(0, out), other = nibble_weight(15, out);  // behind the base
  const std::int32_t wanted = std::max(step < 0 ? -base : base, -std::min(one, other));
  out.base = static_cast<std::uint8_t>(std::clamp(std::min(wanted, 255 - std::max(one, other)), 0, 255));
  return out;
}

}  // namespace pagoda::reference
