#include "kernels/dequantize.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace pagoda {
namespace {

using Bytes = const std::uint8_t*;

template <class T>
T load(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}
float load_half(Bytes address) { return half_to_float(load<std::uint16_t>(address)); }

// One block each; layouts as in GGML's ggml-common.h.
void q8_0(Bytes b, float* out) {
  const float d = load_half(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(b[2 + i]));
}
void q4_0(Bytes b, float* out) {
  const float d = load_half(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b[2 + i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((b[2 + i] >> 4) - 8);
  }
}
void q4_1(Bytes b, float* out) {
  const float d = load_half(b), m = load_half(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(b[4 + i] & 15) + m;
    out[i + 16] = d * static_cast<float>(b[4 + i] >> 4) + m;
  }
}
void q5_0(Bytes b, float* out) {
  const float d = load_half(b);
  const auto high = load<std::uint32_t>(b + 2);
  for (int i = 0; i < 16; ++i) {
    const int low = (b[6 + i] & 15) | static_cast<int>((high >> i) & 1) << 4;
    const int up = (b[6 + i] >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
    out[i] = d * static_cast<float>(low - 16);
    out[i + 16] = d * static_cast<float>(up - 16);
  }
}
void q5_1(Bytes b, float* out) {
  const float d = load_half(b), m = load_half(b + 2);
  const auto high = load<std::uint32_t>(b + 4);
  for (int i = 0; i < 16; ++i) {
    const int low = (b[8 + i] & 15) | static_cast<int>((high >> i) & 1) << 4;
    const int up = (b[8 + i] >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
    out[i] = d * static_cast<float>(low) + m;
    out[i + 16] = d * static_cast<float>(up) + m;
  }
}

// Q4_K and Q5_K: eight 6-bit (scale, min) pairs in 12 bytes.
void scale_min(int j, Bytes s, int& scale, int& min) {
  if (j < 4) {
    scale = s[j] & 63;
    min = s[j + 4] & 63;
  } else {
    scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    min = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
  }
}
void q4_k(Bytes b, float* out) {
  const float d = load_half(b), dmin = load_half(b + 2);
  for (int j = 0; j < 8; ++j) {
    int scale, min;
    scale_min(j, b + 4, scale, min);
    const float ds = d * static_cast<float>(scale), m = dmin * static_cast<float>(min);
    for (int i = 0; i < 32; ++i) {
      const int byte = b[16 + (j / 2) * 32 + i];
      out[j * 32 + i] = ds * static_cast<float>(j % 2 == 0 ? byte & 15 : byte >> 4) - m;
    }
  }
}
void q5_k(Bytes b, float* out) {
  const float d = load_half(b), dmin = load_half(b + 2);
  for (int j = 0; j < 8; ++j) {
    int scale, min;
    scale_min(j, b + 4, scale, min);
    const float ds = d * static_cast<float>(scale), m = dmin * static_cast<float>(min);
    for (int i = 0; i < 32; ++i) {
      const int byte = b[48 + (j / 2) * 32 + i];
      const int value = (j % 2 == 0 ? byte & 15 : byte >> 4) | ((b[16 + i] >> j) & 1) << 4;
      out[j * 32 + i] = ds * static_cast<float>(value) - m;
    }
  }
}
void q6_k(Bytes b, float* out) {
  const Bytes low = b, high = b + 128, scales = b + 192;
  const float d = load_half(b + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, part = i % 128 / 32, l = i % 32;
    const int nibble = low[half * 64 + (part % 2) * 32 + l];
    const int value = (part < 2 ? nibble & 15 : nibble >> 4) | ((high[half * 32 + l] >> (2 * part)) & 3) << 4;
    const int scale = static_cast<std::int8_t>(scales[i / 16]);
    out[i] = d * static_cast<float>(scale) * static_cast<float>(value - 32);
  }
}

}  // namespace

float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 31u, mantissa = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal, in units of 2^-24
    // Adding 0.5 pushes the bits below 2^-24 out of the significand, rounding to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u);
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return sign | static_cast<std::uint16_t>((rounded - 0x38000000u) >> 13);
}

void dequantize(DType dtype, const std::byte* data, std::int64_t elements, float* out) {
  const DTypeInfo& info = dtype_info(dtype);
  CHECK(elements % info.block_elements == 0);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(data);
  const auto each = [&](auto stored, const auto& value) {
    for (std::int64_t i = 0; i < elements; ++i)
      out[i] = value(load<decltype(stored)>(bytes + i * static_cast<std::int64_t>(sizeof stored)));
  };
  const auto blocks = [&](const auto& decode) {
    for (std::int64_t i = 0; i < elements; i += info.block_elements, bytes += info.block_bytes)
      decode(bytes, out + i);
  };
  const auto number = [](auto stored) { return static_cast<float>(stored); };
  switch (dtype) {
    case DType::f32:
      return each(float{}, number);
    case DType::f16:
      return each(std::uint16_t{}, half_to_float);
    case DType::bf16:
      return each(std::uint16_t{}, bfloat16_to_float);
    case DType::i32:
      return each(std::int32_t{}, number);
    case DType::i8:
      return each(std::int8_t{}, number);
    case DType::u8:
      return each(std::uint8_t{}, number);
    case DType::q8_0:
      return blocks(q8_0);
    case DType::q4_0:
      return blocks(q4_0);
    case DType::q4_1:
      return blocks(q4_1);
    case DType::q5_0:
      return blocks(q5_0);
    case DType::q5_1:
      return blocks(q5_1);
    case DType::q4_k:
      return blocks(q4_k);
    case DType::q5_k:
      return blocks(q5_k);
    case DType::q6_k:
      return blocks(q6_k);
  }
}

bool has_nibbles(DType dtype) { return dtype == DType::q4_0 || dtype == DType::q4_1 || dtype == DType::q4_k; }

NibbleGroup nibble_group(DType dtype, const std::byte* row, std::int64_t group) {
  NibbleGroup out;
  const auto* b = reinterpret_cast<const std::uint8_t*>(row);
  if (dtype == DType::q4_0 || dtype == DType::q4_1) {
    b += group * dtype_info(dtype).block_bytes;
    out.scale = load_half(b);
    out.minimum = dtype == DType::q4_1 ? load_half(b + 2) : -8.0f * out.scale;
    std::memcpy(out.nibbles, b + (dtype == DType::q4_1 ? 4 : 2), sizeof out.nibbles);
    return out;
  }
  CHECK(dtype == DType::q4_k);
  b += group / 8 * 144;
  const auto j = static_cast<int>(group % 8);
  int scale, min;
  scale_min(j, b + 4, scale, min);
  out.scale = load_half(b) * static_cast<float>(scale);
  out.minimum = -load_half(b + 2) * static_cast<float>(min);
  const Bytes bytes = b + 16 + j / 2 * 32;
  for (int i = 0; i < 16; ++i) {
    const int low = bytes[i], high = bytes[16 + i];
    out.nibbles[i] =
        static_cast<std::uint8_t>(j % 2 == 0 ? (low & 15) | (high & 15) << 4 : low >> 4 | (high & 240));
  }
  return out;
}

void dequantize_row(const TensorView& tensor, std::int64_t row, float* out) {
  const std::int64_t columns = tensor.columns();
  dequantize(tensor.dtype, tensor.data + row * dtype_bytes(tensor.dtype, columns), columns, out);
}

}  // namespace pagoda
