#pragma once
// For tests of products: random weights of every element type of the kernels by tiles, and small helpers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "device/test_support.h"
#include "kernels/testing.h"
#include "tensor/small_floats.h"

namespace pagoda::device {

inline constexpr Element kTileElements[] = {Element::bf16,  Element::q4,   Element::q8,  Element::q4_k,
                                            Element::q5_k,  Element::q6_k, Element::fp8, Element::fp8_blocks,
                                            Element::mxfp4, Element::nvfp4};
inline Element tile_element(std::size_t which) { return kTileElements[which % std::size(kTileElements)]; }
// k must be a multiple of this.
inline std::size_t step_of(Element element) {
  return element == Element::bf16 ? 8 : element >= Element::fp8 ? 32 : element == Element::q4 ? 64 : 128;
}

inline bool has_warpgroups() { return KernelBench().device().has_warpgroups(); }

inline float rounded(float value) { return bfloat16_to_float(float_to_bfloat16(value)); }

inline std::uint64_t drawn(std::uint64_t seed, std::uint64_t what) { return random_bits(seed, 5, what); }

// Random weights as stored on the device, and their values rounded to bfloat16.
struct Weights {
  Element element = Element::bf16;
  std::vector<std::byte> stored;
  std::vector<float> values;  // [n, k]
};

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* const first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

// The value as the kernels compute 4 bits with a minimum: within 1e-5 of the scale, so that rounding may
// differ.
inline float rounded_four(float scale, float minimum, int code) {
  const float value =
      rounded(std::fma(128 * scale, 1 + static_cast<float>(code) / 128, minimum - 128 * scale));
  EXPECT_NEAR(value, scale * static_cast<float>(code) + minimum,
              0.005 * (static_cast<float>(std::max(15, code)) * scale + std::abs(minimum) + 1e-3));
  return value;
}

// Appends kQuantizedUnit weights from `first` on. `scale` and `minimum` have at most 11 bits.
inline void append_unit(Weights& weights, std::uint64_t seed, std::size_t first, float scale, float minimum) {
  Quantized4K four = {scale, minimum, {}, {}, {}};
  Quantized5K five = {scale, minimum, {}, {}, {}, {}};
  Quantized6K six = {{}, {}, {}, scale / 8, 0};
  for (std::size_t i = 0; i < std::size(six.scales); ++i)
    six.scales[i] = static_cast<std::int8_t>(drawn(seed + 1, first + i));
  for (std::size_t i = 0; i < std::size(four.scales); ++i) {
    four.scales[i] = static_cast<std::uint8_t>(drawn(seed + 2, first + i) & 63);
    four.minima[i] = static_cast<std::uint8_t>(drawn(seed + 3, first + i) & 63);
  }
  for (std::size_t i = 0; i < kQuantizedUnit; ++i) {
    const auto at = static_cast<std::int32_t>(i);
    const auto code = static_cast<int>(drawn(seed, first + i) & 63);
    const auto byte = static_cast<std::size_t>(code_byte(at)), high = static_cast<std::size_t>(high_byte(at));
    const int low = (code & 15) << (i % 32 < 16 ? 0 : 4);
    four.codes[byte] = static_cast<std::uint8_t>(four.codes[byte] | low);
    std::uint8_t& fifths = five.high[static_cast<std::size_t>(code_byte(at % 32))];
    fifths = static_cast<std::uint8_t>(fifths | (code >> 4 & 1) << fifth_bit(at));
    six.codes[byte] = static_cast<std::uint8_t>(six.codes[byte] | low);
    six.high[high] = static_cast<std::uint8_t>(six.high[high] | code >> 4 << high_shift(at));
    weights.values[first + i] =
        weights.element != Element::q6_k
            ? rounded_four(scale * static_cast<float>(four.scales[i / 32]),
                           -minimum * static_cast<float>(four.minima[i / 32]),
                           code & (weights.element == Element::q4_k ? 15 : 31))
            : rounded(six.scale * static_cast<float>(six.scales[i / 16]) * static_cast<float>(code - 32));
  }
  std::ranges::copy(four.scales, five.scales);
  std::ranges::copy(four.minima, five.minima);
  std::ranges::copy(four.codes, five.codes);
  if (weights.element == Element::q4_k)
    append(weights.stored, four);
  else if (weights.element == Element::q5_k)
    append(weights.stored, five);
  else
    append(weights.stored, six);
}

// Rows of 8-bit floats: every code except NaN.
inline void append_floats8(Weights& weights, std::uint64_t seed, std::size_t n, std::size_t k) {
  const bool blocks = weights.element == Element::fp8_blocks;
  const auto row_bytes = static_cast<std::size_t>(float8_row_bytes(static_cast<std::int32_t>(k), blocks));
  for (std::size_t row = 0; row < n; ++row) {
    std::vector<std::byte> line(row_bytes);
    for (std::size_t i = 0; i < k; ++i) {
      const std::size_t block = blocks ? i / kFloat8Scale : 0;
      const float scale = static_cast<float>(1 + drawn(seed + 1, row * 1000 + block) % 1000) *
                          (block % 3 == 2 ? 1e-7f : 1e-5f);
      const auto code = static_cast<std::uint8_t>(drawn(seed, row * k + i));
      const std::uint8_t number = (code & 0x7F) == 0x7F ? code ^ 1 : code;
      line[i / 32 * 32 + static_cast<std::size_t>(float8_byte(static_cast<std::int32_t>(i % 32)))] =
          static_cast<std::byte>(number);
      std::memcpy(line.data() + k + block * sizeof scale, &scale, sizeof scale);
      weights.values[row * k + i] = e4m3_value(number) * scale;
    }
    weights.stored.insert(weights.stored.end(), line.begin(), line.end());
  }
}

inline constexpr float kFloats4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

// Rows of 4-bit floats, with powers of two of every size that sums can represent, and with the smallest ones.
inline void append_floats4(Weights& weights, std::uint64_t seed, std::size_t n, std::size_t k) {
  const auto row_bytes = static_cast<std::size_t>(float4_row_bytes(static_cast<std::int32_t>(k)));
  for (std::size_t row = 0; row < n; ++row) {
    std::vector<std::byte> line(row_bytes);
    for (std::size_t i = 0; i < k; ++i) {
      const std::uint64_t bits = drawn(seed + 1, row * 1000 + i / 32);
      const auto power = static_cast<std::uint8_t>(bits % 11 == 0 ? bits / 11 % 2 : 110 + bits % 25);
      const auto code = static_cast<int>(drawn(seed, row * k + i) & 15), at = static_cast<int>(i % 32);
      line[i / 32 * 16 + static_cast<std::size_t>(float4_byte(at))] |=
          static_cast<std::byte>(code << float4_shift(at));
      line[k / 2 + i / 32] = static_cast<std::byte>(power);
      weights.values[row * k + i] = std::ldexp(kFloats4[code], static_cast<int>(power) - 127);
    }
    weights.stored.insert(weights.stored.end(), line.begin(), line.end());
  }
}

// Likewise with every 8-bit scale, and two numbers per row. `whole`: these numbers are ones, so that weights
// are exact in bfloat16.
inline void append_floats4_scaled(Weights& weights, std::uint64_t seed, std::size_t n, std::size_t k,
                                  bool whole) {
  const auto width = static_cast<std::int32_t>(k);
  for (std::size_t row = 0; row < n; ++row) {
    std::vector<std::byte> line(static_cast<std::size_t>(float4_scaled_row_bytes(width)));
    const auto one = [&](std::uint64_t what) {
      return whole ? 1 : 1e-3f * static_cast<float>(1 + drawn(seed + what, row) % 1000);
    };
    Float4Factors factors = {.all = 0, .factor = one(2), .divisor = one(3), .unused = 0};
    factors.all = factors.factor / factors.divisor;
    std::memcpy(line.data() + float4_scaled_factors(width), &factors, sizeof factors);
    for (std::size_t i = 0; i < k; ++i) {
      const auto scale = static_cast<std::uint8_t>(drawn(seed + 1, row * 1000 + i / kFloat4Scale));
      const auto code = static_cast<int>(drawn(seed, row * k + i) & 15), at = static_cast<int>(i % 32);
      line[i / 32 * 16 + static_cast<std::size_t>(float4_byte(at))] |=
          static_cast<std::byte>(code << float4_shift(at));
      line[k / 2 + i / kFloat4Scale] = static_cast<std::byte>(scale);
      const float value = (scale & 0x7f) == 0x7f ? (scale < 128 ? 480.0f : -480.0f) : e4m3_value(scale);
      weights.values[row * k + i] = kFloats4[code] * value * factors.all;
    }
    weights.stored.insert(weights.stored.end(), line.begin(), line.end());
  }
}

inline Weights random_weights(Element element, std::uint64_t seed, std::size_t n, std::size_t k) {
  Weights weights = {.element = element, .stored = {}, .values = std::vector<float>(n * k)};
  const auto random = random_floats(seed, n * k);
  for (std::size_t i = 0; element == Element::bf16 && i < n * k; ++i) {
    append(weights.stored, float_to_bfloat16(random[i]));
    weights.values[i] = rounded(random[i]);
  }
  if (element == Element::bf16) return weights;
  if (element == Element::mxfp4) {
    append_floats4(weights, seed, n, k);
    return weights;
  }
  if (element == Element::nvfp4) {
    append_floats4_scaled(weights, seed, n, k, false);
    return weights;
  }
  if (is_float8(element)) {
    append_floats8(weights, seed, n, k);
    return weights;
  }
  if (element >= Element::q4_k) {
    for (std::size_t first = 0; first < n * k; first += kQuantizedUnit)
      append_unit(weights, seed, first,
                  bfloat16_to_float(float_to_bfloat16(0.004f * std::abs(random[first]))),
                  bfloat16_to_float(float_to_bfloat16(0.02f * random[first + 1])));
    return weights;
  }
  for (std::size_t first = 0; first < n * k; first += kQuantizedGroup) {
    const float scale = 0.01f + 0.1f * std::abs(random[first]), minimum = random[first + 1];
    Quantized4 four = {scale, minimum, {}};
    Quantized8 eight = {scale / 8, {}};
    for (std::size_t i = 0; i < kQuantizedGroup; ++i) {
      const auto byte = static_cast<std::uint8_t>(drawn(seed, first + i));
      float& value = weights.values[first + i];
      if (element == Element::q4) {
        four.codes[i % 16] = static_cast<std::uint8_t>(four.codes[i % 16] | (byte & 15) << (i < 16 ? 0 : 4));
        value = rounded_four(scale, minimum, byte & 15);
      } else {
        eight.codes[i] = static_cast<std::int8_t>(byte);
        value = rounded(eight.scale * static_cast<float>(eight.codes[i]));
      }
    }
    if (element == Element::q4) append(weights.stored, four);
    if (element == Element::q8) append(weights.stored, eight);
  }
  return weights;
}

inline std::uint16_t* room_for_rounded(KernelBench& bench, std::size_t rows, std::size_t k) {
  const std::int64_t elements =
      KernelLaunches::rounded_elements(static_cast<std::int64_t>(rows), static_cast<std::int64_t>(k));
  return bench.make<std::uint16_t>(static_cast<std::size_t>(elements), "rounded");
}

inline std::vector<float> part(const std::vector<float>& values, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

inline std::size_t between(std::uint64_t seed, std::uint64_t what, std::size_t least, std::size_t most) {
  return least + drawn(seed, 1000 + what) % (most - least + 1);
}

}  // namespace pagoda::device
