// Packing weights into strips of 16 outputs (README.md): bytes are moved where the file's format allows
// it, else decoded group by group. Runs at start-up, so it is parallel over strips.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/scratch.h"
#include "kernels/dequantize.h"
#include "kernels/linear_storage.h"
#include "kernels/reference/quantize.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {
namespace {

using Bytes = const std::uint8_t*;

std::uint16_t load16(Bytes p) {
  std::uint16_t value;
  std::memcpy(&value, p, 2);
  return value;
}
std::uint32_t load32(Bytes p) {
  std::uint32_t value;
  std::memcpy(&value, p, 4);
  return value;
}

// 32 consecutive weights of one output as the packed formats (linear_storage.h) hold them.
struct Group {
  std::uint8_t u[32];
  std::uint16_t d[2] = {0, 0};  // f16; [1]: of the second half, q8_half only
  std::uint16_t m = 0;          // bf16
};

// The file says w = d * u + minimum; around the zero point the rest is small enough for bf16.
std::uint16_t around_zero(std::uint16_t d, float minimum, int zero) {
  return float_to_bfloat16(minimum + half_to_float(d) * static_cast<float>(zero));
}

PackedFormat format_for(const PackedLinear::Storage& storage, DType stored) {
  if (storage.type == LinearType::float32) return PackedFormat::f32;
  if (storage.type == LinearType::bfloat16) return PackedFormat::bf16;
  if (storage.row_scales()) return PackedFormat::q8_row;
  switch (stored) {
    case DType::q4_0:
      return PackedFormat::q4;
    case DType::q4_1:
    case DType::q4_k:
      return PackedFormat::q4_min;
    case DType::q5_1:
    case DType::q5_k:
      return PackedFormat::q8_min;
    case DType::q6_k:
      return PackedFormat::q8_half;
    default:
      return PackedFormat::q8;
  }
}

// GGML's 6-bit scale and minimum of sub-block j.
void scale_min(int j, Bytes s, int& scale, int& min) {
  scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
  min = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
}

// Group `g` of a row stored as `stored`. Exact but for minima (bf16) and the K types, whose products of
// scales are rounded to f16.
void decode(DType stored, Bytes row, std::int64_t g, Group& out) {
  switch (stored) {
    case DType::q5_0:
    case DType::q5_1: {
      const bool min = stored == DType::q5_1;
      Bytes b = row + g * (min ? 24 : 22);
      out.d[0] = load16(b);
      if (min) out.m = around_zero(out.d[0], half_to_float(load16(b + 2)), 16);
      b += min ? 4 : 2;
      const std::uint32_t high = load32(b);
      const int offset = min ? 0 : 128 - 16;
      for (int i = 0; i < 16; ++i) {
        const auto low_bit = static_cast<int>((high >> i) & 1),
                   high_bit = static_cast<int>((high >> (i + 16)) & 1);
        out.u[i] = static_cast<std::uint8_t>(((b[4 + i] & 15) | low_bit << 4) + offset);
        out.u[i + 16] = static_cast<std::uint8_t>(((b[4 + i] >> 4) | high_bit << 4) + offset);
      }
      return;
    }
    case DType::q4_k:
    case DType::q5_k: {
      const bool five = stored == DType::q5_k;
      const Bytes b = row + g / 8 * (five ? 176 : 144);
      const auto j = static_cast<int>(g % 8);
      int scale, min;
      scale_min(j, b + 4, scale, min);
      out.d[0] = float_to_half(half_to_float(load16(b)) * static_cast<float>(scale));
      out.m = around_zero(out.d[0], -half_to_float(load16(b + 2)) * static_cast<float>(min), five ? 16 : 8);
      const Bytes low = b + (five ? 48 : 16) + j / 2 * 32;
      for (int i = 0; i < 32; ++i) {
        const int high = five ? ((b[16 + i] >> j) & 1) << 4 : 0;
        out.u[i] = static_cast<std::uint8_t>((j % 2 == 0 ? low[i] & 15 : low[i] >> 4) | high);
      }
      return;
    }
    case DType::q6_k: {
      const Bytes b = row + g / 8 * 210;
      const auto j = static_cast<int>(g % 8), half = j / 4, part = j % 4;
      const float d = half_to_float(load16(b + 208));
      for (int h = 0; h < 2; ++h) {
        const int scale = static_cast<std::int8_t>(b[192 + 2 * j + h]);
        out.d[h] = float_to_half(d * static_cast<float>(scale));
      }
      for (int i = 0; i < 32; ++i) {
        const int nibble = b[half * 64 + part % 2 * 32 + i];
        const int high = (b[128 + half * 32 + i] >> (2 * part)) & 3;
        out.u[i] = static_cast<std::uint8_t>((part < 2 ? nibble & 15 : nibble >> 4) | high << 4);
      }
      return;
    }
    default:
      CHECK(false);
  }
}

struct Strip {
  std::uint8_t* out;
  const TensorView* view;
  std::int64_t first_row, rows, k;  // rows: 1..16 that exist
  Bytes row(std::int64_t c) const {
    return reinterpret_cast<Bytes>(view->data) + (first_row + c) * dtype_bytes(view->dtype, k);
  }
};

// The place of group g in a strip: its scales [16], minima [16][2] (of two groups) and bytes.
struct Place {
  std::uint8_t *d, *m, *data;
};
Place place(PackedFormat format, std::uint8_t* strip, std::int64_t g) {
  const bool parts = format == PackedFormat::q8_half;
  const bool min = format == PackedFormat::q4_min || format == PackedFormat::q8_min;
  const std::int64_t block = packed_block_bytes(format), header = min || parts ? 128 : 64;
  std::uint8_t* base = strip + g / 2 * block;
  return {base + g % 2 * (parts ? 64 : 32), base + 64 + g % 2 * 2,
          base + header + g % 2 * (block - header) / 2};
}

// Q4_0, Q4_1 and Q8_0: a group's bytes are already those of the packed form; four at a time change place.
void pack_moved(const Strip& s, PackedFormat format) {
  const DType stored = s.view->dtype;
  const int block_bytes = dtype_info(stored).block_bytes;
  const int quads = stored == DType::q8_0 ? 8 : 4, data = stored == DType::q4_1 ? 4 : 2;
  const std::uint32_t flip = stored == DType::q8_0 ? 0x80808080u : 0u;
  for (std::int64_t c = 0; c < s.rows; ++c) {
    Bytes b = s.row(c);
    for (std::int64_t g = 0; g < s.k / 32; ++g, b += block_bytes) {
      const Place p = place(format, s.out, g);
      std::memcpy(p.d + 2 * c, b, 2);
      if (stored == DType::q4_1) {
        const std::uint16_t m = around_zero(load16(b), half_to_float(load16(b + 2)), 8);
        std::memcpy(p.m + 4 * c, &m, 2);
      }
      for (int quad = 0; quad < quads; ++quad) {
        const std::uint32_t value = load32(b + data + 4 * quad) ^ flip;
        std::memcpy(p.data + quad * 64 + c * 4, &value, 4);
      }
    }
  }
}

void put_group(PackedFormat format, std::uint8_t* strip, std::int64_t g, std::int64_t c, const Group& group) {
  const Place p = place(format, strip, g);
  std::memcpy(p.d + 2 * c, &group.d[0], 2);
  if (format == PackedFormat::q8_half) std::memcpy(p.d + 32 + 2 * c, &group.d[1], 2);
  if (format == PackedFormat::q4_min || format == PackedFormat::q8_min) std::memcpy(p.m + 4 * c, &group.m, 2);
  if (format == PackedFormat::q4 || format == PackedFormat::q4_min) {
    for (int i = 0; i < 16; ++i) {
      p.data[i / 4 * 64 + c * 4 + i % 4] = static_cast<std::uint8_t>(group.u[i] | group.u[i + 16] << 4);
    }
  } else {
    for (int quad = 0; quad < 8; ++quad) std::memcpy(p.data + quad * 64 + c * 4, group.u + 4 * quad, 4);
  }
}

void pack_decoded(const Strip& s, PackedFormat format) {
  Group group;
  for (std::int64_t c = 0; c < s.rows; ++c) {
    for (std::int64_t g = 0; g < s.k / 32; ++g) {
      decode(s.view->dtype, s.row(c), g, group);
      put_group(format, s.out, g, c, group);
    }
  }
}

// One row as bf16, at `out` with room for k rounded up to 16; an odd k gets a zero behind it.
const std::uint16_t* bf16_row(const LinearKernels& kernels, const Strip& s, std::int64_t c, float* row,
                              std::uint16_t* out) {
  if (s.view->dtype == DType::bf16) {
    std::memcpy(out, s.row(c), static_cast<std::size_t>(s.k) * 2);
  } else {
    kernels.floats_to_bf16(row, s.k, out);
  }
  if (s.k % 2 != 0) out[s.k] = 0;
  return out;
}

// A row of weights with one scale.
void put_row(const LinearKernels& kernels, std::uint8_t* strip, std::int64_t c, const float* row,
             std::int64_t k, std::uint8_t* bytes) {
  const float largest = kernels.largest(row, k), scale = largest / 127.0f;
  std::memcpy(strip + 4 * c, &scale, 4);
  kernels.row_weights(row, k, largest > 0 ? 127.0f / largest : 0.0f, bytes);
  std::uint8_t* const data = strip + strip_header_bytes(PackedFormat::q8_row) + 4 * c;
  for (std::int64_t i = k; i % 4 != 0; ++i) bytes[i] = 128;
  for (std::int64_t quad = 0; 4 * quad < k; ++quad) std::memcpy(data + quad * 64, bytes + 4 * quad, 4);
}

// From any type by way of floats; `scratch` holds two rows of floats.
void pack_floats(const LinearKernels& kernels, const Strip& s, PackedFormat format, std::byte* scratch) {
  auto* row = reinterpret_cast<float*>(scratch);
  auto* narrow = reinterpret_cast<std::uint16_t*>(row + round_up(s.k, 16));
  for (std::int64_t c = 0; c < s.rows; ++c) {
    if (s.view->dtype == DType::f16) {
      // By way of a copy: the vectors read up to the next multiple of 16, and the file may end there.
      std::memcpy(narrow, s.row(c), static_cast<std::size_t>(s.k) * 2);
      kernels.half_to_floats(narrow, s.k, row);
    } else if (format != PackedFormat::bf16 || s.view->dtype != DType::bf16) {
      dequantize(s.view->dtype, reinterpret_cast<const std::byte*>(s.row(c)), s.k, row);
    }
    if (format == PackedFormat::f32) {
      for (std::int64_t k = 0; k < s.k; ++k) std::memcpy(s.out + (k * kStrip + c) * 4, row + k, 4);
    } else if (format == PackedFormat::bf16) {
      const std::uint16_t* values = bf16_row(kernels, s, c, row, narrow);
      for (std::int64_t pair = 0; pair < ceil_div(s.k, 2); ++pair) {
        std::memcpy(s.out + pair * 64 + c * 4, values + 2 * pair, 4);
      }
    } else if (format == PackedFormat::q8_row) {
      put_row(kernels, s.out, c, row, s.k, reinterpret_cast<std::uint8_t*>(narrow));
    } else {
      Group group;
      for (std::int64_t g = 0; g < ceil_div(s.k, 32); ++g) {
        std::int8_t q[32] = {};
        const int count = static_cast<int>(std::min<std::int64_t>(32, s.k - g * 32));
        group.d[0] = float_to_half(reference::quantize_weight_group(row + g * 32, count, q));
        for (int i = 0; i < 32; ++i) group.u[i] = static_cast<std::uint8_t>(q[i] + 128);
        put_group(format, s.out, g, c, group);
      }
    }
  }
}

}  // namespace

std::int64_t plan_packing(std::span<const TensorView> weights, PackedLinear::Storage& storage) {
  std::int64_t offset = 0, n_begin = 0;
  for (const TensorView& view : weights) {
    LinearSegment segment;
    segment.format = format_for(storage, view.dtype);
    segment.n_begin = n_begin;
    segment.n = view.rows();
    const std::int64_t per_block = segment.format == PackedFormat::f32    ? 1
                                   : segment.format == PackedFormat::bf16 ? 2
                                                                          : 64;
    segment.strip_bytes = strip_header_bytes(segment.format) +
                          ceil_div(storage.k, per_block) * packed_block_bytes(segment.format);
    segment.offset = offset;
    n_begin += segment.n;
    offset += ceil_div(segment.n, kStrip) * segment.strip_bytes;
    storage.segments.push_back(segment);
    if (LinearSegment* run = storage.runs.empty() ? nullptr : &storage.runs.back();
        run != nullptr && run->format == segment.format && run->n % kStrip == 0) {
      run->n += segment.n;
    } else {
      storage.runs.push_back(segment);
    }
  }
  return offset;
}

void pack(const KernelContext& context, std::span<const TensorView> weights, PackedLinear::Storage& storage) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TensorView& view = weights[i];
    const LinearSegment& segment = storage.segments[i];
    const bool grouped = storage.type == LinearType::grouped;
    const LinearKernels& kernels = linear_kernels(context.level);
    for_ranges(context, ceil_div(segment.n, kStrip), 4, [&](std::int64_t first, std::int64_t last) {
      static thread_local Scratch scratch;
      for (std::int64_t strip = first; strip < last; ++strip) {
        const Strip s{reinterpret_cast<std::uint8_t*>(storage.packed.data()) + segment.offset +
                          strip * segment.strip_bytes,
                      &view, strip * kStrip, std::min(kStrip, segment.n - strip * kStrip), storage.k};
        if (grouped &&
            (view.dtype == DType::q4_0 || view.dtype == DType::q4_1 || view.dtype == DType::q8_0)) {
          pack_moved(s, segment.format);
        } else if (grouped && is_quantized(view.dtype)) {
          pack_decoded(s, segment.format);
        } else {
          pack_floats(kernels, s, segment.format,
                      scratch.take(static_cast<std::size_t>(2 * round_up(storage.k, 16) + 16) * 4));
        }
      }
    });
  }
}

}  // namespace pagoda::cpu
