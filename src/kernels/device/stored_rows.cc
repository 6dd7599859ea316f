#include "kernels/device/stored_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/dequantize.h"
#include "kernels/formats/formats.h"

namespace pagoda {

using device::Element;
using device::kQuantizedGroup;
using device::kQuantizedUnit;
using device::Quantized4;
using device::Quantized4K;
using device::Quantized5K;
using device::Quantized6K;
using device::Quantized8;

namespace {

// float_to_bfloat16() without a call and a branch, so that loops over it are vectorised.
std::uint16_t rounded(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : nearest);
}

// The bits of a bfloat16, as widened and rounded again: a NaN becomes quiet.
std::uint16_t quiet(std::uint16_t bits) {
  return static_cast<std::uint16_t>(bits | ((bits & 0x7fffu) > 0x7f80u ? 0x40u : 0u));
}

// Writes `make(i)` for each i, contiguously to memory that need not be aligned.
template <class T>
void write_each(std::int64_t count, std::byte* out, auto make) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = make(i);
    std::memcpy(out + i * std::int64_t{sizeof value}, &value, sizeof value);
  }
}

template <class T>
T read_at(const std::byte* from, std::int64_t i) {
  T value;
  std::memcpy(&value, from + i * std::int64_t{sizeof value}, sizeof value);
  return value;
}

// The rounded value of every half.
const std::array<std::uint16_t, 1 << 16>& rounded_halves() {
  static const auto table = [] {
    std::array<std::uint16_t, 1 << 16> all;
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = rounded(half_to_float(static_cast<std::uint16_t>(i)));
    return all;
  }();
  return table;
}

// In pieces that stay in the cache.
void write_bfloat16(const TensorView& view, const std::byte* stored, std::byte* out) {
  const std::int64_t columns = view.columns();
  if (view.dtype == DType::bf16)
    return write_each<std::uint16_t>(
        columns, out, [&](std::int64_t i) { return quiet(read_at<std::uint16_t>(stored, i)); });
  if (view.dtype == DType::f32)
    return write_each<std::uint16_t>(columns, out,
                                     [&](std::int64_t i) { return rounded(read_at<float>(stored, i)); });
  if (view.dtype == DType::f16) {
    const std::array<std::uint16_t, 1 << 16>& table = rounded_halves();
    return write_each<std::uint16_t>(
        columns, out, [&](std::int64_t i) { return table[read_at<std::uint16_t>(stored, i)]; });
  }
  constexpr std::int64_t kPiece = 2048;  // whole blocks of every type
  std::array<float, kPiece> values;
  for (std::int64_t first = 0; first < columns; first += kPiece) {
    const std::int64_t count = std::min(kPiece, columns - first);
    dequantize(view.dtype, stored + dtype_bytes(view.dtype, first), count, values.data());
    write_each<std::uint16_t>(count, out + 2 * first,
                              [&](std::int64_t i) { return rounded(values[static_cast<std::size_t>(i)]); });
  }
}

// 32 weights stored in 4 bits with their own float numbers.
Quantized4 four_bits(const TensorView& view, const std::byte* row, std::int64_t group) {
  const NibbleGroup nibbles = nibble_group(view.dtype, row, group);
  Quantized4 out{.scale = nibbles.scale, .minimum = nibbles.minimum, .codes = {}};
  std::ranges::copy(nibbles.nibbles, out.codes);
  return out;
}

Quantized8 eight_bits(const std::byte* row, std::int64_t group) {
  Quantized8 out;
  std::uint16_t scale;
  const std::byte* const block = row + group * dtype_info(DType::q8_0).block_bytes;
  std::memcpy(&scale, block, sizeof scale);
  std::memcpy(out.codes, block + sizeof scale, sizeof out.codes);
  out.scale = half_to_float(scale);
  return out;
}

// Reorders bytes j of 16, for weights j and 16 + j of 32, by code_byte(): alternating pairs of the first
// eight and the last eight.
void write_codes(const std::array<std::uint8_t, 16>& codes, std::uint8_t* out) {
  static_assert(device::code_byte(2) == 4 && device::code_byte(8) == 2 && device::code_byte(15) == 15);
  for (std::size_t i = 0; i < 4; ++i) {
    std::memcpy(out + 4 * i, &codes[2 * i], 2);
    std::memcpy(out + 4 * i + 2, &codes[8 + 2 * i], 2);
  }
}

// The 4 bits from `shift` on of 32 bytes.
void write_nibbles(const std::uint8_t* bytes, int shift, std::uint8_t* out) {
  std::array<std::uint8_t, 16> codes;
  for (std::size_t j = 0; j < 16; ++j)
    codes[j] = static_cast<std::uint8_t>((bytes[j] >> shift & 15) | (bytes[16 + j] >> shift & 15) << 4);
  write_codes(codes, out);
}

// Half `half` of the file's block of 256, whose lower bits begin at `codes`.
template <class Unit>
Unit unit_of_fours(const std::uint8_t* block, const std::uint8_t* codes, int half) {
  Unit out = {};
  out.scale = formats::load_half(block);
  out.minimum = formats::load_half(block + 2);
  for (int group = 0; group < 4; ++group) {
    int scale, minimum;
    formats::scale_min(4 * half + group, block + 4, scale, minimum);
    out.scales[group] = static_cast<std::uint8_t>(scale);
    out.minima[group] = static_cast<std::uint8_t>(minimum);
    write_nibbles(codes + 64 * half + group / 2 * 32, group % 2 * 4, out.codes + 16 * group);
  }
  return out;
}

Quantized4K unit_of_q4_k(const std::byte* row, std::int64_t unit) {
  const auto* const block =
      reinterpret_cast<const std::uint8_t*>(row) + unit / 2 * dtype_info(DType::q4_k).block_bytes;
  return unit_of_fours<Quantized4K>(block, block + 16, static_cast<int>(unit % 2));
}

// A byte of the file has the fifth bits of weight j of each 32, with those of the block's first 32 in the
// lowest bit.
Quantized5K unit_of_q5_k(const std::byte* row, std::int64_t unit) {
  const auto* const block =
      reinterpret_cast<const std::uint8_t*>(row) + unit / 2 * dtype_info(DType::q5_k).block_bytes;
  const auto half = static_cast<int>(unit % 2);
  auto out = unit_of_fours<Quantized5K>(block, block + 48, half);
  const std::uint8_t* const bytes = block + 16;
  std::array<std::uint8_t, 16> high{};
  for (std::size_t j = 0; j < 16; ++j)
    for (int group = 0; group < 4; ++group) {
      const int first = bytes[j] >> (4 * half + group) & 1, second = bytes[16 + j] >> (4 * half + group) & 1;
      high[j] = static_cast<std::uint8_t>(high[j] | (first | second << 1) << 2 * group);
    }
  static_assert(device::fifth_bit(31) == 1 && device::fifth_bit(32) == 2);
  write_codes(high, out.high);
  return out;
}

Quantized6K unit_of_q6_k(const std::byte* row, std::int64_t unit) {
  const auto* const block =
      reinterpret_cast<const std::uint8_t*>(row) + unit / 2 * dtype_info(DType::q6_k).block_bytes;
  const auto half = static_cast<int>(unit % 2);
  Quantized6K out = {
      .codes = {}, .high = {}, .scales = {}, .scale = formats::load_half(block + 208), .unused = 0};
  std::memcpy(out.scales, block + 192 + 8 * half, sizeof out.scales);
  for (int group = 0; group < 4; ++group)
    write_nibbles(block + 64 * half + group % 2 * 32, group / 2 * 4, out.codes + 16 * group);
  for (int pair = 0; pair < 2; ++pair) {
    const std::uint8_t* const bytes = block + 128 + 32 * half;
    std::array<std::uint8_t, 16> high;
    for (std::size_t j = 0; j < 16; ++j) {
      const int first = bytes[j] >> 4 * pair, second = bytes[16 + j] >> 4 * pair;
      high[j] =
          static_cast<std::uint8_t>((first & 3) | (second & 3) << 2 | (first & 12) << 2 | (second & 12) << 4);
    }
    write_codes(high, out.high + 16 * pair);
  }
  return out;
}

// 32 weights of DType::fp8 and their scale.
constexpr std::int64_t kStoredFloats8 = 4 + 32;

// Codes, then their scales, padded with zeros.
void write_floats8(const std::byte* stored, std::int64_t columns, bool blocks, std::byte* out) {
  constexpr std::array<std::uint8_t, 32> kPlaces = [] {
    std::array<std::uint8_t, 32> from{};
    for (std::int32_t i = 0; i < 32; ++i)
      from[static_cast<std::size_t>(device::float8_byte(i))] = static_cast<std::uint8_t>(i);
    return from;
  }();
  std::byte* const scales = out + columns;
  const std::int64_t bytes = device::float8_row_bytes(static_cast<std::int32_t>(columns), blocks);
  std::memset(scales, 0, static_cast<std::size_t>(bytes - columns));
  for (std::int64_t group = 0; group < columns / 32; ++group) {
    const std::byte* const from = stored + group * kStoredFloats8;
    for (std::size_t i = 0; i < 32; ++i)
      out[32 * group + static_cast<std::int64_t>(i)] = from[4 + kPlaces[i]];
    if (blocks ? group % 4 == 0 : group == 0) std::memcpy(scales + (blocks ? group / 4 * 4 : 0), from, 4);
  }
}

// 32 codes in the order of float4_nibble(). code_of(i): the code of weight i.
void write_codes4(std::byte* out, auto code_of) {
  std::array<std::uint8_t, 16> codes{};
  for (std::int32_t i = 0; i < 32; ++i) {
    std::uint8_t& byte = codes[static_cast<std::size_t>(device::float4_byte(i))];
    byte = static_cast<std::uint8_t>(byte | code_of(i) << device::float4_shift(i));
  }
  std::memcpy(out, codes.data(), codes.size());
}

// Codes, then their powers of two, padded with zeros.
void write_floats4(const std::byte* stored, std::int64_t columns, std::byte* out) {
  constexpr std::int64_t kBlock = dtype_info(DType::mxfp4).block_bytes;
  const std::int64_t bytes = device::float4_row_bytes(static_cast<std::int32_t>(columns));
  std::byte* const powers = out + columns / 2;
  std::memset(powers, 0, static_cast<std::size_t>(bytes - columns / 2));
  for (std::int64_t group = 0; group < columns / 32; ++group) {
    const auto* const block = reinterpret_cast<const std::uint8_t*>(stored) + group * kBlock;
    powers[group] = static_cast<std::byte>(block[0]);
    write_codes4(out + 16 * group,
                 [&](std::int32_t i) { return block[1 + i % 16] >> (i < 16 ? 0 : 4) & 15; });
  }
}

// Codes, then their scales, padded with zeros, then the row's factors: for DType::nvfp4, whose scales have no
// sign, or DType::nvfp4_scaled, where all blocks of a row have the same two numbers. A row with a NaN scale
// is NaN.
void write_floats4_scaled(DType dtype, const std::byte* stored, std::int64_t columns, std::byte* out) {
  const bool of_file = dtype == DType::nvfp4;
  const DTypeInfo& info = dtype_info(dtype);
  const std::int64_t factors_at = device::float4_scaled_factors(static_cast<std::int32_t>(columns));
  device::Float4Factors factors = {.all = 1, .factor = 1, .divisor = 1, .unused = 0};
  if (!of_file) std::memcpy(&factors.factor, stored, 2 * sizeof(float));
  std::byte* const scales = out + columns / 2;
  std::memset(scales, 0, static_cast<std::size_t>(factors_at - columns / 2));
  for (std::int64_t group = 0; group < columns / 32; ++group) {
    const auto* const block = reinterpret_cast<const std::uint8_t*>(stored) + group / 2 * info.block_bytes;
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::uint8_t scale = block[(of_file ? 0 : 8) + group % 2 * 2 + half];
      const bool is_last = (scale & 0x7f) == 0x7f;
      if (is_last && !of_file) factors.factor = std::numeric_limits<float>::quiet_NaN();
      scales[2 * group + half] = static_cast<std::byte>(!of_file ? scale : scale == 0x7f ? 0 : scale & 0x7f);
    }
    const std::uint8_t* const codes = block + (of_file ? 4 : 12) + group % 2 * 16;
    write_codes4(out + 16 * group, [&](std::int32_t i) {
      return of_file ? codes[i / 16 * 8 + i % 8] >> (i % 16 < 8 ? 0 : 4) & 15
                     : codes[i % 16] >> (i < 16 ? 0 : 4) & 15;
    });
  }
  factors.all = factors.factor / factors.divisor;
  std::memcpy(out + factors_at, &factors, sizeof factors);
}

// True if each `groups` groups of 32 weights have the same scale; if 0, the whole row.
bool share_scales(const TensorView& view, std::int64_t groups) {
  const std::int64_t row_groups = view.columns() / 32;
  for (std::int64_t row = 0; row < view.rows(); ++row) {
    const std::byte* const first = view.data + row * row_groups * kStoredFloats8;
    for (std::int64_t group = 1; group < row_groups; ++group) {
      const std::byte* const own = first + group * kStoredFloats8;
      const std::int64_t with = groups == 0 ? 0 : group / groups * groups;
      if (std::memcmp(own, first + with * kStoredFloats8, sizeof(float)) != 0) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Element> quantized_element(std::span<const TensorView> views) {
  const auto all = [&](auto holds) {
    return std::ranges::all_of(views, [&](const TensorView& view) {
      return view.columns() % kQuantizedGroup == 0 && holds(view.dtype);
    });
  };
  if (all([](DType dtype) { return dtype == DType::q4_k; })) return Element::q4_k;
  if (all([](DType dtype) { return dtype == DType::q5_k; })) return Element::q5_k;
  if (all([](DType dtype) { return dtype == DType::q6_k; })) return Element::q6_k;
  if (all([](DType dtype) { return has_nibbles(dtype); })) return Element::q4;
  if (all([](DType dtype) { return dtype == DType::q8_0; })) return Element::q8;
  if (all([](DType dtype) { return dtype == DType::mxfp4; })) return Element::mxfp4;
  if (all([](DType dtype) { return dtype == DType::nvfp4 || dtype == DType::nvfp4_scaled; }))
    return Element::nvfp4;
  if (all([](DType dtype) { return dtype == DType::fp8; })) {
    const auto share = [&](std::int64_t groups) {
      return std::ranges::all_of(views, [&](const TensorView& view) { return share_scales(view, groups); });
    };
    if (share(0)) return Element::fp8;
    if (share(device::kFloat8Scale / 32)) return Element::fp8_blocks;
  }
  return std::nullopt;
}

void write_row(Element element, const TensorView& view, std::int64_t row, std::byte* out) {
  const std::int64_t columns = view.columns();
  const std::byte* const stored = view.data + row * dtype_bytes(view.dtype, columns);
  switch (element) {
    case Element::f32:
      if (view.dtype == DType::f32)
        return (void)std::memcpy(out, stored, sizeof(float) * static_cast<std::size_t>(columns));
      // Rows of stages, tables and tests are aligned for floats.
      return dequantize(view.dtype, stored, columns, reinterpret_cast<float*>(out));
    case Element::bf16:
      return write_bfloat16(view, stored, out);
    case Element::q4:
      return write_each<Quantized4>(columns / kQuantizedGroup, out,
                                    [&](std::int64_t i) { return four_bits(view, stored, i); });
    case Element::q8:
      return write_each<Quantized8>(columns / kQuantizedGroup, out,
                                    [&](std::int64_t i) { return eight_bits(stored, i); });
    case Element::q4_k:
      return write_each<Quantized4K>(columns / kQuantizedUnit, out,
                                     [&](std::int64_t i) { return unit_of_q4_k(stored, i); });
    case Element::q5_k:
      return write_each<Quantized5K>(columns / kQuantizedUnit, out,
                                     [&](std::int64_t i) { return unit_of_q5_k(stored, i); });
    case Element::fp8:
    case Element::fp8_blocks:
      return write_floats8(stored, columns, element == Element::fp8_blocks, out);
    case Element::mxfp4:
      return write_floats4(stored, columns, out);
    case Element::nvfp4:
      return write_floats4_scaled(view.dtype, stored, columns, out);
    default:
      CHECK(element == Element::q6_k);
      return write_each<Quantized6K>(columns / kQuantizedUnit, out,
                                     [&](std::int64_t i) { return unit_of_q6_k(stored, i); });
  }
}

}  // namespace pagoda
