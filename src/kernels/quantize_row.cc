#include "kernels/quantize_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/dequantize.h"
#include "kernels/reference/quantize.h"
#include "tensor/small_floats.h"

namespace pagoda {
namespace {

constexpr std::int64_t kPowerGroup = 32;  // MXFP4

float largest_of(std::span<const float> x) {
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::fabs(value));
  return largest;
}

// Stores the scale as bfloat16 and returns the stored value. Stores 1 if the scale is too small to divide by.
float put_scale(float scale, std::byte* to) {
  std::uint16_t bits = float_to_bfloat16(scale);
  if (!(bfloat16_to_float(bits) > 1e-37f)) bits = float_to_bfloat16(1);
  std::memcpy(to, &bits, sizeof bits);
  return bfloat16_to_float(bits);
}

float rounded(float value, float least, float most) { return std::clamp(std::nearbyint(value), least, most); }

void int8_row(std::span<const float> x, std::byte* codes, std::byte* scales) {
  const float scale = put_scale(largest_of(x) / 127, scales);
  for (const float value : x)
    *codes++ = static_cast<std::byte>(static_cast<std::int8_t>(rounded(value / scale, -127, 127)));
}

void e4m3_row(std::span<const float> x, std::byte* codes, std::byte* scales) {
  const float scale = put_scale(largest_of(x) / 448, scales);
  for (const float value : x)
    *codes++ = static_cast<std::byte>(nearest_e4m3(reference::input_number(InputNumber::e4m3, value, scale)));
}

// The scale with the least squared error among a few candidates.
float int4_scale(std::span<const float> x, std::byte* to) {
  const float largest = largest_of(x);
  float best = put_scale(largest / 7, to), least = -1;
  std::byte kept[2];
  for (int candidate = 0; candidate <= 12; ++candidate) {
    std::byte stored[2];
    const float scale = put_scale(largest / (7.0f + 0.2f * static_cast<float>(candidate)), stored);
    float error = 0;
    for (const float value : x) {
      const float lost = scale * rounded(value / scale, -8, 7) - value;
      error += lost * lost;
    }
    if (least >= 0 && error >= least) continue;
    least = error;
    best = scale;
    std::memcpy(kept, stored, sizeof kept);
  }
  std::memcpy(to, kept, sizeof kept);
  return best;
}

void int4_row(std::span<const float> x, std::size_t group, std::byte* codes, std::byte* scales) {
  for (std::size_t begin = 0; begin < x.size(); begin += group, scales += 2) {
    const float scale = int4_scale(x.subspan(begin, group), scales);
    for (std::size_t i = begin; i < begin + group; i += 2, ++codes) {
      const auto code = [&](std::size_t at) { return static_cast<int>(rounded(x[at] / scale, -8, 7)) + 8; };
      *codes = static_cast<std::byte>(code(i) | code(i + 1) << 4);
    }
  }
}

// The index of the nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6; a tie goes to the even index.
int e2m1_place(float magnitude) {
  constexpr float kMiddle[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  int place = 0;
  while (place < 7 && (place % 2 == 0 ? magnitude > kMiddle[place] : magnitude >= kMiddle[place])) ++place;
  return place;
}
constexpr float kE2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

void mxfp4_row(std::span<const float> x, std::byte* codes, std::byte* scales) {
  for (std::size_t begin = 0; begin < x.size(); begin += kPowerGroup, codes += kPowerGroup / 2) {
    const std::span<const float> part = x.subspan(begin, kPowerGroup);
    const float largest = largest_of(part);
    const int least = largest > 0 ? std::clamp(std::ilogb(largest) - 2, -126, 126) : 0;
    int best = least;
    float least_error = -1;
    // The smaller exponent clips values above 6 times its power of two.
    for (const int exponent : {least, least + 1}) {
      float error = 0;
      for (const float value : part) {
        const float share = std::ldexp(std::fabs(value), -exponent);
        const float lost = std::ldexp(kE2m1[e2m1_place(share)] - share, exponent);
        error += lost * lost;
      }
      if (least_error >= 0 && error >= least_error) continue;
      least_error = error;
      best = exponent;
    }
    *scales++ = static_cast<std::byte>(best + 127);
    const auto code = [&](std::size_t at) {
      return e2m1_place(std::ldexp(std::fabs(part[at]), -best)) | (std::signbit(part[at]) ? 8 : 0);
    };
    for (std::size_t i = 0; i < kPowerGroup; i += 2)
      codes[i / 2] = static_cast<std::byte>(code(i) | code(i + 1) << 4);
  }
}

}  // namespace

std::int64_t row_code_bytes(RowScheme scheme, std::int64_t k) {
  return scheme == RowScheme::int8 || scheme == RowScheme::e4m3 ? k : k / 2;
}

std::int64_t row_scale_bytes(RowScheme scheme, std::int64_t k, std::int64_t group) {
  switch (scheme) {
    case RowScheme::int8:
    case RowScheme::e4m3:
      return 2;
    case RowScheme::int4:
      return k / group * 2;
    case RowScheme::mxfp4:
      return k / kPowerGroup;
  }
  return 0;
}

void quantize_row(RowScheme scheme, std::span<const float> x, std::int64_t group, std::byte* codes,
                  std::byte* scales) {
  switch (scheme) {
    case RowScheme::int8:
      return int8_row(x, codes, scales);
    case RowScheme::int4:
      return int4_row(x, static_cast<std::size_t>(group), codes, scales);
    case RowScheme::e4m3:
      return e4m3_row(x, codes, scales);
    case RowScheme::mxfp4:
      return mxfp4_row(x, codes, scales);
  }
}

}  // namespace pagoda
