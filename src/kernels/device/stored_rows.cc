#include "kernels/device/stored_rows.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/dequantize.h"
#include "kernels/formats/formats.h"

namespace pagoda {

using device::Element;
using device::kQuantizedGroup;
using device::kQuantizedUnit;
using device::Quantized4;
using device::Quantized4K;
using device::Quantized6K;
using device::Quantized8;

namespace {

void append(const auto& value, std::vector<std::byte>& out) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

// 32 weights whose file has 4 bits and float numbers of its own for them.
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

// Halves of the file's blocks of 256.
Quantized4K unit_of_q4_k(const std::byte* row, std::int64_t unit) {
  const auto* const block =
      reinterpret_cast<const std::uint8_t*>(row) + unit / 2 * dtype_info(DType::q4_k).block_bytes;
  const auto half = static_cast<int>(unit % 2);
  Quantized4K out = {.scale = formats::load_half(block),
                     .minimum = formats::load_half(block + 2),
                     .scales = {},
                     .minima = {},
                     .codes = {}};
  for (int group = 0; group < 4; ++group) {
    int scale, minimum;
    formats::scale_min(4 * half + group, block + 4, scale, minimum);
    out.scales[group] = static_cast<std::uint8_t>(scale);
    out.minima[group] = static_cast<std::uint8_t>(minimum);
  }
  for (int i = 0; i < kQuantizedUnit; ++i) {
    const int code = block[16 + 64 * half + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
    std::uint8_t& to = out.codes[device::code_byte(i)];
    to = static_cast<std::uint8_t>(to | code << (i % 32 < 16 ? 0 : 4));
  }
  return out;
}

Quantized6K unit_of_q6_k(const std::byte* row, std::int64_t unit) {
  const auto* const block =
      reinterpret_cast<const std::uint8_t*>(row) + unit / 2 * dtype_info(DType::q6_k).block_bytes;
  const auto half = static_cast<int>(unit % 2);
  Quantized6K out = {
      .codes = {}, .high = {}, .scales = {}, .scale = formats::load_half(block + 208), .unused = 0};
  std::memcpy(out.scales, block + 192 + 8 * half, sizeof out.scales);
  for (int i = 0; i < kQuantizedUnit; ++i) {
    const int low = block[64 * half + i / 32 % 2 * 32 + i % 32] >> (i / 64 * 4) & 15,
              high = block[128 + 32 * half + i % 32] >> (i / 32 * 2) & 3;
    std::uint8_t& to = out.codes[device::code_byte(i)];
    to = static_cast<std::uint8_t>(to | low << (i % 32 < 16 ? 0 : 4));
    std::uint8_t& rest = out.high[device::high_byte(i)];
    rest = static_cast<std::uint8_t>(rest | high << device::high_shift(i));
  }
  return out;
}

}  // namespace

std::optional<Element> quantized_element(std::span<const TensorView> views) {
  const auto all = [&](auto holds) {
    return std::ranges::all_of(views, [&](const TensorView& view) {
      return view.columns() % kQuantizedGroup == 0 && holds(view.dtype);
    });
  };
  if (all([](DType dtype) { return dtype == DType::q4_k; })) return Element::q4_k;
  if (all([](DType dtype) { return dtype == DType::q6_k; })) return Element::q6_k;
  if (all([](DType dtype) { return has_nibbles(dtype); })) return Element::q4;
  if (all([](DType dtype) { return dtype == DType::q8_0; })) return Element::q8;
  return std::nullopt;
}

void append_floats(Element element, std::span<const float> values, std::vector<std::byte>& out) {
  for (const float value : values)
    if (element == Element::f32)
      append(value, out);
    else
      append(float_to_bfloat16(value), out);
}

void append_row(Element element, const TensorView& view, std::int64_t row, std::vector<std::byte>& out) {
  const std::int64_t columns = view.columns();
  if (element == Element::f32 || element == Element::bf16) {
    std::vector<float> values(static_cast<std::size_t>(columns));
    dequantize_row(view, row, values.data());
    return append_floats(element, values, out);
  }
  const std::byte* const stored = view.data + row * dtype_bytes(view.dtype, columns);
  const auto each = [&](std::int32_t weights, auto make) {
    for (std::int64_t i = 0; i < columns / weights; ++i) append(make(i), out);
  };
  switch (element) {
    case Element::q4:
      return each(kQuantizedGroup, [&](std::int64_t i) { return four_bits(view, stored, i); });
    case Element::q8:
      return each(kQuantizedGroup, [&](std::int64_t i) { return eight_bits(stored, i); });
    case Element::q4_k:
      return each(kQuantizedUnit, [&](std::int64_t i) { return unit_of_q4_k(stored, i); });
    default:
      CHECK(element == Element::q6_k);
      return each(kQuantizedUnit, [&](std::int64_t i) { return unit_of_q6_k(stored, i); });
  }
}

}  // namespace pagoda
