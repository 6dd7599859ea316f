#include "kernels/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/check.h"
#include "kernels/dequantize.h"

namespace pagoda {
namespace {

using Encode = void (*)(const float* x, std::uint8_t* b);

// Values beyond half precision saturate at its largest number.
std::uint16_t half_of(float value) {
  constexpr float kLargest = 65504.0f;
  return float_to_half(std::clamp(value, -kLargest, kLargest));
}

void put_half(std::uint8_t* b, float value) {
  const std::uint16_t bits = half_of(value);
  std::memcpy(b, &bits, sizeof bits);
}
// 0 for values so small that the inverse would be infinite: their block becomes 0.
float inverse(float value) { return std::fabs(value) > 1e-38f ? 1 / value : 0; }
int nearest(float value, int least, int most) {
  return static_cast<int>(
      std::clamp(std::nearbyint(value), static_cast<float>(least), static_cast<float>(most)));
}

// The value of the largest magnitude, with its sign.
float extreme(std::span<const float> x) {
  return *std::max_element(x.begin(), x.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

template <class T, auto kConvert>
void quantize_plain(const float* x, std::uint8_t* b) {
  const T value = kConvert(*x);
  std::memcpy(b, &value, sizeof value);
}
constexpr auto kSame = [](float value) { return value; };

// A number of Q4_0 or Q5_0: the extreme value maps to 0, and halves are rounded up, in float32 as in the gguf
// package.
int number_of(float value, float inverse_scale, int middle) {
  const float number = value * inverse_scale + (static_cast<float>(middle) + 0.5f);
  return static_cast<int>(std::clamp(std::trunc(number), 0.0f, 2.0f * static_cast<float>(middle) - 1));
}

void q4_0(const float* x, std::uint8_t* b) {
  const float d = extreme({x, 32}) / -8, id = inverse(d);
  put_half(b, d);
  for (int i = 0; i < 16; ++i)
    b[2 + i] = static_cast<std::uint8_t>(number_of(x[i], id, 8) | number_of(x[i + 16], id, 8) << 4);
}

void q5_0(const float* x, std::uint8_t* b) {
  const float d = extreme({x, 32}) / -16, id = inverse(d);
  put_half(b, d);
  std::uint32_t high = 0;
  for (int i = 0; i < 32; ++i) high |= static_cast<std::uint32_t>(number_of(x[i], id, 16) >> 4) << i;
  std::memcpy(b + 2, &high, sizeof high);
  for (int i = 0; i < 16; ++i)
    b[6 + i] =
        static_cast<std::uint8_t>((number_of(x[i], id, 16) & 15) | (number_of(x[i + 16], id, 16) & 15) << 4);
}

void q8_0(const float* x, std::uint8_t* b) {
  const float d = std::fabs(extreme({x, 32})) / 127, id = inverse(d);
  put_half(b, d);
  for (int i = 0; i < 32; ++i)
    b[2 + i] =
        static_cast<std::uint8_t>(static_cast<int>(std::clamp(std::round(x[i] * id), -127.0f, 127.0f)));
}

// The scale of 16 values as numbers of -32 to 31. Errors weigh more for larger values.
float symmetric_scale(std::span<const float> x) {
  const float most = extreme(x);
  if (std::fabs(most) < 1e-30f) return 0;
  float best = 0, best_gain = -1;
  for (int candidate = -9; candidate <= 9; ++candidate) {
    const float id = -(32 + 0.1f * static_cast<float>(candidate)) / most;
    float products = 0, squares = 0;
    for (const float value : x) {
      const auto number = static_cast<float>(nearest(value * id, -32, 31));
      products += value * value * value * number;
      squares += value * value * number * number;
    }
    if (squares <= 0 || products * products <= best_gain * squares) continue;
    best = products / squares;
    best_gain = products * products / squares;
  }
  return best;
}

void q6_k(const float* x, std::uint8_t* b) {
  std::memset(b, 0, 210);
  float scales[16];
  for (int g = 0; g < 16; ++g) scales[g] = symmetric_scale({x + 16 * g, 16});
  const float d = extreme(scales) / -128, id = inverse(d);
  put_half(b + 208, d);
  std::uint16_t bits = 0;
  std::memcpy(&bits, b + 208, sizeof bits);
  const float kept = half_to_float(bits);
  for (int i = 0; i < 256; ++i) {
    const int scale = nearest(scales[i / 16] * id, -128, 127);
    const int number = nearest(x[i] * inverse(kept * static_cast<float>(scale)), -32, 31) + 32;
    const int half = i / 128, part = i % 128 / 32, l = i % 32;
    b[192 + i / 16] = static_cast<std::uint8_t>(scale);
    b[half * 64 + part % 2 * 32 + l] |= static_cast<std::uint8_t>((number & 15) << (part < 2 ? 0 : 4));
    b[128 + half * 32 + l] |= static_cast<std::uint8_t>((number >> 4) << (2 * part));
  }
}

struct ScaleAndMinimum {
  float scale = 0, minimum = 0;  // w = scale * n - minimum, n in 0..15, minimum not negative
};

// The best scale and minimum for 32 values. A value's error is weighted by its magnitude plus the root mean
// square of all.
ScaleAndMinimum scale_and_minimum(std::span<const float> x) {
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  const float low = std::min(*least, 0.0f), range = *most - low;
  if (!(range > 1e-30f)) return {.scale = 0, .minimum = -low};
  float size = 0;
  for (const float value : x) size += value * value;
  size = std::sqrt(size / static_cast<float>(x.size()));
  ScaleAndMinimum best;
  float least_error = -1;
  for (int candidate = 0; candidate <= 20; ++candidate) {
    const float id = (14 + 0.1f * static_cast<float>(candidate)) / range;
    // Least squares over the numbers that this scale produces.
    float w = 0, wn = 0, wnn = 0, wx = 0, wnx = 0;
    float numbers[32];
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto n = static_cast<float>(nearest((x[i] - low) * id, 0, 15));
      const float weight = size + std::fabs(x[i]);
      numbers[i] = n;
      w += weight;
      wn += weight * n;
      wnn += weight * n * n;
      wx += weight * x[i];
      wnx += weight * n * x[i];
    }
    const float determinant = w * wnn - wn * wn;
    const bool alike = determinant <= 1e-6f * w * wnn;  // all numbers are equal
    ScaleAndMinimum found = {};
    if (!alike)
      found = {.scale = (w * wnx - wn * wx) / determinant, .minimum = (wn * wnx - wnn * wx) / determinant};
    if (alike || found.minimum < 0) found = {.scale = wnx / wnn, .minimum = 0};
    float error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float difference = found.scale * numbers[i] - found.minimum - x[i];
      error += (size + std::fabs(x[i])) * difference * difference;
    }
    if (least_error >= 0 && error >= least_error) continue;
    least_error = error;
    best = found;
  }
  return best;
}

void q4_k(const float* x, std::uint8_t* b) {
  std::memset(b, 0, 144);
  ScaleAndMinimum groups[8];
  float scale = 0, minimum = 0;
  for (int g = 0; g < 8; ++g) {
    groups[g] = scale_and_minimum({x + 32 * g, 32});
    scale = std::max(scale, groups[g].scale);
    minimum = std::max(minimum, groups[g].minimum);
  }
  put_half(b, scale / 63);
  put_half(b + 2, minimum / 63);
  std::uint16_t bits[2];
  std::memcpy(bits, b, sizeof bits);
  const float d = half_to_float(bits[0]), dmin = half_to_float(bits[1]);
  for (int g = 0; g < 8; ++g) {
    const int s = nearest(groups[g].scale * inverse(scale / 63), 0, 63),
              m = nearest(groups[g].minimum * inverse(minimum / 63), 0, 63);
    if (g < 4) {
      b[4 + g] |= static_cast<std::uint8_t>(s);
      b[8 + g] |= static_cast<std::uint8_t>(m);
    } else {
      b[8 + g] |= static_cast<std::uint8_t>((s & 15) | (m & 15) << 4);
      b[g] |= static_cast<std::uint8_t>((s >> 4) << 6);
      b[4 + g] |= static_cast<std::uint8_t>((m >> 4) << 6);
    }
    const float id = inverse(d * static_cast<float>(s)), low = dmin * static_cast<float>(m);
    for (int i = 0; i < 32; ++i)
      b[16 + g / 2 * 32 + i] |=
          static_cast<std::uint8_t>(nearest((x[32 * g + i] + low) * id, 0, 15) << (g % 2 * 4));
  }
}

Encode encoder(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return quantize_plain<float, kSame>;
    case DType::f16:
      return quantize_plain<std::uint16_t, half_of>;
    case DType::bf16:
      return quantize_plain<std::uint16_t, float_to_bfloat16>;
    case DType::q4_0:
      return q4_0;
    case DType::q5_0:
      return q5_0;
    case DType::q8_0:
      return q8_0;
    case DType::q4_k:
      return q4_k;
    case DType::q6_k:
      return q6_k;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_quantize(DType dtype) { return encoder(dtype) != nullptr; }

void quantize(DType dtype, const float* values, std::int64_t elements, std::byte* out) {
  const DTypeInfo& info = dtype_info(dtype);
  const Encode encode = encoder(dtype);
  CHECK(encode != nullptr && elements % info.block_elements == 0);
  auto* b = reinterpret_cast<std::uint8_t*>(out);
  for (std::int64_t i = 0; i < elements; i += info.block_elements, b += info.block_bytes)
    encode(values + i, b);
}

}  // namespace pagoda
