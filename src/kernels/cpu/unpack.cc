// Unpacks one row of weights from its panels to float32.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/panel_points.h"
#include "kernels/dequantize.h"
#include "kernels/linear_storage.h"

namespace pagoda::cpu {
namespace {

template <class T>
T load(const std::byte* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

// Number i of 32 of one output, whose bytes begin at `planes`; the inverse of put_numbers in pack.cc.
int number_at(int bits, const std::byte* planes, int i) {
  const int quad = i / 4, v = quad % 4, upper = quad / 4;
  const auto at = [&](std::int64_t offset) { return std::to_integer<int>(planes[offset + i % 4]); };
  if (bits == 8) return at(64 * quad);
  int number = bits >= 4 ? at(64 * v) >> (4 * upper) & 15 : 0;
  if (bits % 4 >= 2)
    number |= (at(bits / 4 * 256 + v / 2 * 64) >> (v % 2 * 4 + 2 * upper) & 3) << (bits / 4 * 4);
  if (bits % 2 == 1) number |= (at(bits / 2 * 128) >> quad & 1) << (bits - 1);
  return number;
}

// The scale of group `g` of a block, and its minimum, or 0 if it has none.
WeightStep step_at(const PanelLayout& panel, float unit, const std::byte* block, std::int64_t c,
                   std::int64_t g) {
  const auto half = [&](std::int64_t at) { return half_to_float(load<std::uint16_t>(block + at + 2 * c)); };
  const std::int64_t groups = panel.block_inputs / panel.scale_inputs;
  if (panel.scales == PanelScales::none) return {unit, 0};
  if (panel.scales == PanelScales::shares)
    return {unit * half(32 * g), panel.minima ? unit * half(32 * (groups + g)) : 0};
  const auto byte = [&](std::int64_t at) { return std::to_integer<int>(block[at + c]); };
  if (!panel.minima)
    return {panel.share * half(0) * static_cast<float>(static_cast<std::int8_t>(byte(32 + 16 * g))), 0};
  const bool pairs = panel.scale_inputs == 16;
  const int scale = byte(64 + 16 * g), minimum = pairs ? scale >> 4 : byte(64 + 16 * (groups + g));
  return {half(0) * static_cast<float>(pairs ? scale & 15 : scale), half(32) * static_cast<float>(minimum)};
}

// Unpacks output c of a strip of weights for 8-bit products.
void unpack_numbers(PackedFormat format, const std::byte* strip, std::int64_t c, std::int64_t k, float* out) {
  const PanelLayout& panel = panel_layout(format);
  const float unit = panel.header_bytes > 0 ? load<float>(strip + 4 * c) : 1;
  const std::int64_t width = std::min(panel.scale_inputs, 32);
  for (std::int64_t begin = 0; begin < k; begin += width) {
    const std::byte* const block =
        strip + panel.header_bytes + begin / panel.block_inputs * panel.block_bytes;
    const std::int64_t in_block = begin % panel.block_inputs;
    const WeightStep step = step_at(panel, unit, block, c, in_block / panel.scale_inputs);
    const std::byte* const planes = block + panel.scale_bytes + in_block / 32 * number_bytes(format) + 4 * c;
    const std::int64_t count = std::min(width, k - begin);
    for (int i = 0; i < count; ++i) {
      const int stored = number_at(panel.bits, planes, static_cast<int>(in_block % 32) + i);
      const int number = panel.bytes != nullptr              ? panel.bytes[stored]
                         : panel.scales == PanelScales::none ? static_cast<std::int8_t>(stored)
                                                             : stored;
      out[begin + i] = step.scale * static_cast<float>(number - panel.zero) + step.minimum;
    }
  }
}

// Unpacks output c of a strip of points.
void unpack_points(PackedFormat format, const std::byte* strip, std::int64_t c, std::int64_t k, float* out) {
  const PanelLayout& panel = panel_layout(format);
  for (const std::byte* block = strip; k > 0; k -= kSuperBlockInputs, block += panel.block_bytes) {
    const float d = panel.share * half_to_float(load<std::uint16_t>(block + 2 * c));
    std::int8_t values[kSuperBlockInputs];
    std::int8_t scales[kSuperBlockInputs / 16];
    point_values(format, block, c, values, scales);
    for (int i = 0; i < kSuperBlockInputs; ++i)
      *out++ = d * static_cast<float>(scales[i / 16]) * static_cast<float>(values[i]);
  }
}

// Unpacks output c of a strip of float codes; the inverse of put_codes in pack.cc.
void unpack_codes(PackedFormat format, const std::byte* strip, std::int64_t c, std::int64_t k, float* out) {
  const PanelLayout& panel = panel_layout(format);
  for (std::int64_t i = 0; i < k; ++i) {
    const std::byte* const block = strip + panel.header_bytes + i / panel.block_inputs * panel.block_bytes;
    const std::int64_t in_block = i % panel.block_inputs;
    const std::byte* const numbers = block + panel.scale_bytes;
    const float scale = panel.scales == PanelScales::floats
                            ? load<float>(block + 4 * c)
                            : e4m3_value(std::to_integer<std::uint8_t>(block[in_block / 16 * 16 + c])) *
                                  load<float>(strip + 4 * c) / load<float>(strip + 64 + 4 * c);
    const auto byte = [&](std::int64_t at) { return std::to_integer<std::uint8_t>(numbers[at]); };
    const float value =
        panel.code_bits == 8
            ? e4m3_value(byte(in_block / 2 * 32 + 2 * c + in_block % 2))
            : panel.values[byte(in_block / 8 * 64 + 4 * c + in_block % 8 / 2) >> (in_block % 2 * 4) & 15];
    out[i] = value * scale;
  }
}

}  // namespace

void unpack_row(const PackedLinear::Storage& storage, std::int64_t row, float* out) {
  const LinearSegment* segment = storage.segments.data();
  while (row >= segment->n_begin + segment->n) ++segment;
  const std::int64_t c = (row - segment->n_begin) % kStrip, k = storage.k;
  const std::byte* const strip =
      storage.packed + segment->offset + (row - segment->n_begin) / kStrip * segment->strip_step;
  switch (segment->format) {
    case PackedFormat::f32:
      for (std::int64_t i = 0; i < k; ++i) out[i] = load<float>(strip + (i * kStrip + c) * 4);
      return;
    case PackedFormat::bf16:
      for (std::int64_t i = 0; i < k; ++i)
        out[i] = bfloat16_to_float(load<std::uint16_t>(strip + i / 2 * 64 + c * 4 + i % 2 * 2));
      return;
    case PackedFormat::f16:
      for (std::int64_t i = 0; i < k; ++i)
        out[i] = half_to_float(load<std::uint16_t>(strip + (i * kStrip + c) * 2));
      return;
    default:
      break;
  }
  if (has_codes(segment->format)) return unpack_codes(segment->format, strip, c, k, out);
  if (has_points(segment->format)) return unpack_points(segment->format, strip, c, k, out);
  CHECK(panel_layout(segment->format).bits > 0);
  unpack_numbers(segment->format, strip, c, k, out);
}

}  // namespace pagoda::cpu
