// linear on the CPU: turns activations into the form the weights want, once per call, and hands out tiles.
#include "kernels/linear.h"

#include <algorithm>
#include <bit>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/scratch.h"
#include "kernels/linear_storage.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {

#if !defined(__x86_64__)
const LinearKernels& linear_kernels_avx512() { return linear_kernels_portable(); }
const LinearKernels& linear_kernels_avx2() { return linear_kernels_portable(); }
#endif

const LinearKernels& linear_kernels(CpuLevel level) {
  switch (level) {
    case CpuLevel::avx512:
      return linear_kernels_avx512();
    case CpuLevel::avx2:
      return linear_kernels_avx2();
    case CpuLevel::portable:
      break;
  }
  return linear_kernels_portable();
}

namespace {

LinearTileFunction tile_function(const LinearKernels& kernels, PackedFormat format) {
  switch (format) {
    case PackedFormat::f32:
      return kernels.f32;
    case PackedFormat::bf16:
      return kernels.bf16;
    case PackedFormat::q4:
      return kernels.q4;
    case PackedFormat::q4_min:
      return kernels.q4_min;
    case PackedFormat::q8:
      return kernels.q8;
    case PackedFormat::q8_min:
      return kernels.q8_min;
    case PackedFormat::q8_half:
      return kernels.q8_half;
    case PackedFormat::plain:
      break;
  }
  return nullptr;
}

// The activations of one call in the forms its segments need.
struct Activations {
  const void* x = nullptr;  // floats, bf16 or int8
  std::int64_t x_stride = 0;
  std::int64_t x_bytes = 0;  // of one element
  const float* scale = nullptr;
  std::int64_t groups = 0;
  // Per kind of format: what the zero point or the minimum adds (linear_tile.h). Two to a group for q8_half.
  const std::int32_t* zero8 = nullptr;
  const std::int32_t* zero128 = nullptr;
  const std::int32_t* zero32_half = nullptr;
  const std::int32_t* minimum = nullptr;
};

// A row's length in elements of `bytes`: not a multiple of 4096 bytes, or all rows of a register tile
// would compete for the same few cache lines.
std::int64_t padded_stride(std::int64_t elements, std::int64_t bytes) {
  return round_up(elements, 64) + 64 / bytes;
}

bool uses(const PackedLinear::Storage& weight, std::initializer_list<PackedFormat> formats) {
  return std::any_of(weight.segments.begin(), weight.segments.end(), [&](const LinearSegment& segment) {
    return std::find(formats.begin(), formats.end(), segment.format) != formats.end();
  });
}

Activations prepare(const KernelContext& context, const LinearKernels& kernels,
                    const PackedLinear::Storage& weight, const float* x, std::int64_t num_rows) {
  static thread_local Scratch scratch;
  const std::int64_t k = weight.k;
  Activations out;
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / k);
  if (weight.type == LinearType::float32) {
    out.x = x;
    out.x_stride = k;
    out.x_bytes = 4;
    return out;
  }
  if (weight.type == LinearType::bfloat16) {
    out.x_bytes = kernels.bf16_bytes;
    out.x_stride = padded_stride(k, out.x_bytes);
    std::byte* rounded = scratch.take(static_cast<std::size_t>(num_rows * out.x_stride * out.x_bytes));
    out.x = rounded;
    for_ranges(context, num_rows, grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        kernels.round_row(x + row * k, k, rounded + row * out.x_stride * out.x_bytes);
      }
    });
    return out;
  }
  out.x_bytes = 1;
  out.x_stride = padded_stride(k, 1);
  out.groups = ceil_div(k, 32);
  const std::int64_t groups = out.groups;
  std::byte* memory = scratch.take(static_cast<std::size_t>(num_rows * (out.x_stride + 9 * groups * 4)));
  auto* q = reinterpret_cast<std::int8_t*>(memory);
  auto* scale = reinterpret_cast<float*>(q + num_rows * out.x_stride);
  auto* half_sums = reinterpret_cast<std::int32_t*>(scale + num_rows * groups);
  std::int32_t* const zero8 = half_sums + 2 * num_rows * groups;
  std::int32_t* const zero128 = zero8 + num_rows * groups;
  std::int32_t* const minimum = zero128 + num_rows * groups;
  std::int32_t* const zero32_half = minimum + num_rows * groups;
  const bool need8 = uses(weight, {PackedFormat::q4}), need128 = uses(weight, {PackedFormat::q8}),
             need_minimum = uses(weight, {PackedFormat::q4_min, PackedFormat::q8_min}),
             need_half = uses(weight, {PackedFormat::q8_half});
  for_ranges(context, num_rows, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t at = row * groups;
      kernels.quantize_row(x + row * k, k, {q + row * out.x_stride, scale + at, half_sums + 2 * at});
      for (std::int64_t g = at; g < at + groups; ++g) {
        const std::int32_t sum = half_sums[2 * g] + half_sums[2 * g + 1];
        if (need8) zero8[g] = -8 * sum;
        if (need128) zero128[g] = -128 * sum;
        if (need_minimum) minimum[g] = std::bit_cast<std::int32_t>(scale[g] * static_cast<float>(sum));
      }
      if (need_half) {
        for (std::int64_t h = 2 * at; h < 2 * (at + groups); ++h) zero32_half[h] = -32 * half_sums[h];
      }
    }
  });
  out.x = q;
  out.scale = scale;
  out.zero8 = zero8;
  out.zero128 = zero128;
  out.minimum = minimum;
  out.zero32_half = zero32_half;
  return out;
}

const std::int32_t* term_of(const Activations& a, PackedFormat format) {
  switch (format) {
    case PackedFormat::q4:
      return a.zero8;
    case PackedFormat::q8:
      return a.zero128;
    case PackedFormat::q8_half:
      return a.zero32_half;
    case PackedFormat::q4_min:
    case PackedFormat::q8_min:
      return a.minimum;
    default:
      return nullptr;
  }
}

}  // namespace

void linear(const KernelContext& context, const PackedLinear::Storage& weight, const float* x,
            std::int64_t num_rows, float* y, LinearOutput output) {
  const LinearKernels& kernels = linear_kernels(context.level);
  const Activations a = prepare(context, kernels, weight, x, num_rows);
  const std::int64_t threads = context.pool == nullptr ? 1 : context.pool->num_threads();

  for (const LinearSegment& segment : weight.segments) {
    const LinearTileFunction compute = tile_function(kernels, segment.format);
    const std::int64_t strips = ceil_div(segment.n, kStrip);
    // Rows of one tile: their activations stay in L2 while the strips go by.
    const std::int64_t rows_per_tile =
        std::max<std::int64_t>(64, (std::int64_t{384} << 10) / (a.x_stride * a.x_bytes));
    const std::int64_t row_tiles = ceil_div(num_rows, rows_per_tile);
    // Strips of one tile: 32 KiB of weights at least, or enough work to cover the hand-out; but several
    // tiles per thread, so that a slow thread costs little.
    const std::int64_t work = std::max<std::int64_t>(1, 64 / std::max<std::int64_t>(num_rows, 1));
    std::int64_t strips_per_tile =
        std::max<std::int64_t>(2, work * (std::int64_t{1} << 15) / (32 * segment.strip_bytes));
    strips_per_tile = std::min(strips_per_tile, ceil_div(strips, 4 * threads));
    strips_per_tile = round_up(strips_per_tile, 2);
    const std::int64_t strip_tiles = ceil_div(strips, strips_per_tile);

    for_tiles(context, strip_tiles * row_tiles, [&](std::int64_t tile, int) {
      const std::int64_t strip = tile / row_tiles * strips_per_tile;
      const std::int64_t row = num_rows * (tile % row_tiles) / row_tiles;
      const std::int64_t row_end = num_rows * (tile % row_tiles + 1) / row_tiles;
      const std::int64_t strip_count = std::min(strips_per_tile, strips - strip);
      const std::int64_t column = segment.n_begin + strip * kStrip;
      const std::int64_t parts = segment.format == PackedFormat::q8_half ? 2 : 1;
      const std::int32_t* term = term_of(a, segment.format);
      compute({
          .weights = weight.packed.data() + segment.offset + strip * segment.strip_bytes,
          .strip_bytes = segment.strip_bytes,
          .k = weight.k,
          .num_strips = strip_count,
          .last_columns = strip + strip_count == strips ? segment.n - (strips - 1) * kStrip : kStrip,
          .x = static_cast<const std::byte*>(a.x) + row * a.x_stride * a.x_bytes,
          .x_stride = a.x_stride,
          .scale = a.scale == nullptr ? nullptr : a.scale + row * a.groups,
          .term = term == nullptr ? nullptr : term + row * a.groups * parts,
          .scale_stride = a.groups,
          .term_stride = a.groups * parts,
          .num_rows = row_end - row,
          .y = y + row * weight.n + column,
          .y_stride = weight.n,
          .bias = weight.bias.empty() ? nullptr : weight.bias.data() + column,
          .accumulate = output == LinearOutput::accumulate,
      });
    });
  }
}

}  // namespace pagoda::cpu
