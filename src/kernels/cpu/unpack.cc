// One row of weights out of its panels, as float32.
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear_tile.h"
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

// Output c of a strip whose weights have a scale, and perhaps a minimum, for 32 inputs.
void unpack_groups(PackedFormat format, const std::byte* strip, std::int64_t c, std::int64_t k, float* out) {
  const bool nibbles = format == PackedFormat::q4, minima = format != PackedFormat::q8;
  const auto unit = load<float>(strip + 4 * c);
  for (std::int64_t begin = 0; begin < k; begin += 32) {
    const std::int64_t half = begin / 32 % 2;
    const std::byte* const block =
        strip + strip_header_bytes(format) + begin / 64 * packed_block_bytes(format);
    const auto share = [&](std::int64_t at) {
      return unit * half_to_float(load<std::uint16_t>(block + at + 32 * half + 2 * c));
    };
    const float scale = share(0), minimum = minima ? share(64) : 0;
    const std::byte* const lines = block + scale_bytes(format) + (nibbles ? 4 : 8) * half * 64 + 4 * c;
    for (std::int64_t i = 0; i < 32 && begin + i < k; ++i) {
      const std::int64_t quad = i / 4;
      const std::byte number =
          nibbles ? lines[quad % 4 * 64 + i % 4] >> static_cast<int>(quad / 4 * 4) & std::byte{15}
                  : lines[quad * 64 + i % 4];
      const auto u = static_cast<float>(number);
      out[begin + i] = minima ? scale * u + minimum : scale * (u - 128.0f);
    }
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
    case PackedFormat::q8:
    case PackedFormat::q4:
    case PackedFormat::q8m:
      return unpack_groups(segment->format, strip, c, k, out);
    case PackedFormat::plain:
      break;
  }
  CHECK(false);
}

}  // namespace pagoda::cpu
