// linear on the CPU: turns activations into the form the weights want, once per call, and hands out tiles.
#include "kernels/linear.h"

#include <algorithm>

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
    case PackedFormat::q8_row:
      return kernels.q8_row;
    case PackedFormat::plain:
      break;
  }
  return nullptr;
}

// The activations of one call in the forms its segments need, in panels.
struct Activations {
  Panels panels;
  const std::byte* x = nullptr;
  std::int64_t row_bytes = 0;
  const float* scale = nullptr;
  std::int64_t groups = 0;
  // What the zero points of 8, 16, 32 (two to a group) and 128 add, and what minima are multiplied with.
  const std::int32_t* zero8 = nullptr;
  const std::int32_t* zero16 = nullptr;
  const std::int32_t* zero128 = nullptr;
  const std::int32_t* zero32_half = nullptr;
  const std::byte* group_sums = nullptr;
};

bool uses(const PackedLinear::Storage& weight, std::initializer_list<PackedFormat> formats) {
  return std::any_of(weight.segments.begin(), weight.segments.end(), [&](const LinearSegment& segment) {
    return std::find(formats.begin(), formats.end(), segment.format) != formats.end();
  });
}

// body(begin, row, height) for each row of each panel: row `begin + row`, in a panel of `height` rows.
template <class Body>
void for_panel_rows(const KernelContext& context, const Panels& panels, std::int64_t k, const Body& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / k * panels.count / panels.num_rows);
  for_ranges(context, panels.count, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t panel = first; panel < last; ++panel) {
      const std::int64_t begin = panels.begin(panel), height = panels.begin(panel + 1) - begin;
      for (std::int64_t row = 0; row < height; ++row) body(begin, row, height);
    }
  });
}

void prepare_floats(const KernelContext& context, const float* x, std::int64_t k, Scratch& scratch,
                    Activations& a) {
  a.row_bytes = k * 4;
  a.x = reinterpret_cast<const std::byte*>(x);
  if (a.panels.num_rows == a.panels.count) return;  // panels of one row are rows
  auto* out =
      reinterpret_cast<float*>(scratch.take(static_cast<std::size_t>(a.panels.num_rows * a.row_bytes)));
  a.x = reinterpret_cast<const std::byte*>(out);
  for_panel_rows(context, a.panels, k, [&](std::int64_t begin, std::int64_t row, std::int64_t height) {
    const float* from = x + (begin + row) * k;
    float* to = out + begin * k + row;
    for (std::int64_t i = 0; i < k; ++i) to[i * height] = from[i];
  });
}

void prepare_bf16(const KernelContext& context, const LinearKernels& kernels, const float* x, std::int64_t k,
                  Scratch& scratch, Activations& a) {
  const std::int64_t pair = 2 * kernels.bf16_bytes;
  a.row_bytes = ceil_div(k, 2) * pair;
  std::byte* out = scratch.take(static_cast<std::size_t>(a.panels.num_rows * a.row_bytes));
  a.x = out;
  for_panel_rows(context, a.panels, k, [&](std::int64_t begin, std::int64_t row, std::int64_t height) {
    kernels.round_row(x + (begin + row) * k, k, out + begin * a.row_bytes + row * pair, height * pair);
  });
}

void prepare_groups(const KernelContext& context, const LinearKernels& kernels,
                    const PackedLinear::Storage& weight, const float* x, Scratch& scratch, Activations& a) {
  const std::int64_t rows = a.panels.num_rows, k = weight.k, size = weight.row_scales() ? 64 : 32;
  const std::int64_t groups = ceil_div(k, size);
  const std::int64_t pair = 2 * kernels.bf16_bytes, sums_row_bytes = ceil_div(groups, 2) * pair;
  a.groups = groups;
  a.row_bytes = groups * size;
  auto* q = reinterpret_cast<std::int8_t*>(
      scratch.take(static_cast<std::size_t>(rows * (groups * (size + 6 * 4) + sums_row_bytes))));
  auto* const scale = reinterpret_cast<float*>(q + rows * groups * size);
  auto* const zero8 = reinterpret_cast<std::int32_t*>(scale + rows * groups);
  std::int32_t* const zero16 = zero8 + rows * groups;
  std::int32_t* const zero128 = zero16 + rows * groups;
  std::int32_t* const zero32_half = zero128 + rows * groups;
  auto* const group_sums = reinterpret_cast<std::byte*>(zero32_half + 2 * rows * groups);
  const bool need8 = uses(weight, {PackedFormat::q4, PackedFormat::q4_min}),
             need16 = uses(weight, {PackedFormat::q8_min}),
             need128 = uses(weight, {PackedFormat::q8, PackedFormat::q8_row}),
             need_half = uses(weight, {PackedFormat::q8_half}),
             need_sums = uses(weight, {PackedFormat::q4_min, PackedFormat::q8_min});
  for_panel_rows(context, a.panels, k, [&](std::int64_t begin, std::int64_t row, std::int64_t height) {
    static thread_local Scratch sums_scratch;
    auto* sums = reinterpret_cast<std::int32_t*>(sums_scratch.take(static_cast<std::size_t>(groups * 20)));
    auto* scaled = reinterpret_cast<float*>(sums + 4 * groups);
    const std::int64_t at = begin * groups + row;
    kernels.quantize_row(x + (begin + row) * k, k,
                         {size, q + (begin * groups + row) * size, height * size, scale + at, height, sums});
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t to = at + g * height;
      std::int32_t sum = 0;
      for (std::int64_t i = g * (size / 16); i < (g + 1) * (size / 16); ++i) sum += sums[i];
      if (need8) zero8[to] = -8 * sum;
      if (need16) zero16[to] = -16 * sum;
      if (need128) zero128[to] = -128 * sum;
      if (need_sums) scaled[g] = scale[to] * static_cast<float>(sum);
      if (need_half) {
        zero32_half[2 * to] = -32 * sums[2 * g];
        zero32_half[2 * to + 1] = -32 * sums[2 * g + 1];
      }
    }
    if (need_sums) {
      kernels.round_row(scaled, groups, group_sums + begin * sums_row_bytes + row * pair, height * pair);
    }
  });
  a.x = reinterpret_cast<const std::byte*>(q);
  a.scale = scale;
  a.zero8 = zero8;
  a.zero16 = zero16;
  a.zero128 = zero128;
  a.zero32_half = zero32_half;
  a.group_sums = group_sums;
}

Activations prepare(const KernelContext& context, const LinearKernels& kernels,
                    const PackedLinear::Storage& weight, const float* x, std::int64_t num_rows) {
  static thread_local Scratch scratch;
  Activations a;
  const std::int64_t height = weight.type == LinearType::float32    ? kernels.f32_rows
                              : weight.type == LinearType::bfloat16 ? kernels.bf16_rows
                                                                    : kernels.grouped_rows;
  a.panels = {num_rows, ceil_div(num_rows, height)};
  if (weight.type == LinearType::float32) {
    prepare_floats(context, x, weight.k, scratch, a);
  } else if (weight.type == LinearType::bfloat16) {
    prepare_bf16(context, kernels, x, weight.k, scratch, a);
  } else {
    prepare_groups(context, kernels, weight, x, scratch, a);
  }
  return a;
}

const std::int32_t* term_of(const Activations& a, PackedFormat format) {
  switch (format) {
    case PackedFormat::q4:
    case PackedFormat::q4_min:
      return a.zero8;
    case PackedFormat::q8_min:
      return a.zero16;
    case PackedFormat::q8:
    case PackedFormat::q8_row:
      return a.zero128;
    case PackedFormat::q8_half:
      return a.zero32_half;
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

  for (const LinearSegment& segment : weight.runs) {
    const LinearTileFunction compute = tile_function(kernels, segment.format);
    const std::int64_t strips = ceil_div(segment.n, kStrip);
    // Rows of one tile: their activations stay in L2 while the strips go by.
    const std::int64_t row_tiles = ceil_div(num_rows * a.row_bytes, std::int64_t{384} << 10);
    // Strips of one tile: 32 KiB of weights at least, or enough work to cover the hand-out; but several
    // tiles per thread, so that a slow thread costs little.
    const std::int64_t work = std::max<std::int64_t>(1, 64 / num_rows);
    std::int64_t strips_per_tile =
        std::max<std::int64_t>(2, work * (std::int64_t{1} << 15) / (32 * segment.strip_bytes));
    strips_per_tile = std::min(strips_per_tile, ceil_div(strips, 4 * threads));
    strips_per_tile = round_up(strips_per_tile, 2);
    const std::int64_t strip_tiles = ceil_div(strips, strips_per_tile);
    const std::int32_t* term = term_of(a, segment.format);
    const std::byte* const weights = weight.packed.data() + segment.offset;

    for_tiles(context, strip_tiles * row_tiles, [&](std::int64_t tile, int) {
      const std::int64_t strip = tile / row_tiles * strips_per_tile, row_tile = tile % row_tiles;
      const std::int64_t strip_count = std::min(strips_per_tile, strips - strip);
      const std::int64_t next = (tile + threads) / row_tiles * strips_per_tile;
      const std::int64_t column = segment.n_begin + strip * kStrip;
      compute({
          .weights = weights + strip * segment.strip_bytes,
          .strip_bytes = segment.strip_bytes,
          .k = weight.k,
          .num_strips = strip_count,
          .last_columns = strip + strip_count == strips ? segment.n - (strips - 1) * kStrip : kStrip,
          .next_weights = next + 2 <= strips ? weights + next * segment.strip_bytes : nullptr,
          .panels = a.panels,
          .first_panel = a.panels.count * row_tile / row_tiles,
          .last_panel = a.panels.count * (row_tile + 1) / row_tiles,
          .x = a.x,
          .x_row_bytes = a.row_bytes,
          .scale = a.scale,
          .term = term,
          .group_sums = a.group_sums,
          .y = y + column,
          .y_stride = weight.n,
          .bias = weight.bias.empty() ? nullptr : weight.bias.data() + column,
          .accumulate = output == LinearOutput::accumulate,
      });
    });
  }
}

}  // namespace pagoda::cpu
