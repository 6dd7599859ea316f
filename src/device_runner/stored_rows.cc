#include "device_runner/stored_rows.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/dequantize.h"

namespace pagoda::device_runner {

using device::Element;
using device::kQuantizedGroup;
using device::Quantized4;
using device::Quantized8;

namespace {

void append(const auto& value, std::vector<std::byte>& out) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

}  // namespace

std::optional<Element> quantized_element(std::span<const TensorView> views) {
  const auto all = [&](auto holds) {
    return std::ranges::all_of(views, [&](const TensorView& view) {
      return view.columns() % kQuantizedGroup == 0 && holds(view.dtype);
    });
  };
  if (all([](DType dtype) { return has_nibbles(dtype); })) return Element::q4;
  if (all([](DType dtype) { return dtype == DType::q8_0; })) return Element::q8;
  return std::nullopt;
}

std::int64_t row_bytes(Element element, std::int64_t columns) {
  switch (element) {
    case Element::f32:
      return 4 * columns;
    case Element::bf16:
      return 2 * columns;
    case Element::q4:
      return columns / kQuantizedGroup * static_cast<std::int64_t>(sizeof(Quantized4));
    default:
      CHECK(element == Element::q8);
      return columns / kQuantizedGroup * static_cast<std::int64_t>(sizeof(Quantized8));
  }
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
  for (std::int64_t g = 0; g < columns / kQuantizedGroup; ++g) {
    if (element == Element::q4) {
      const NibbleGroup group = nibble_group(view.dtype, stored, g);
      Quantized4 there{.scale = group.scale, .minimum = group.minimum, .codes = {}};
      std::ranges::copy(group.nibbles, there.codes);
      append(there, out);
    } else {
      Quantized8 there;
      std::uint16_t scale;
      const std::byte* const block = stored + g * dtype_info(DType::q8_0).block_bytes;
      std::memcpy(&scale, block, sizeof scale);
      std::memcpy(there.codes, block + sizeof scale, sizeof there.codes);
      there.scale = half_to_float(scale);
      append(there, out);
    }
  }
}

}  // namespace pagoda::device_runner
