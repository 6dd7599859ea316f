// linear on the CPU: turns activations into the form the weights want, once per call, and hands out tiles.
#include "kernels/linear.h"

#include <algorithm>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/linear_storage.h"
#include "kernels/read_ahead.h"
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
    case PackedFormat::q8:
      return kernels.q8;
    case PackedFormat::q4:
      return kernels.q4;
    case PackedFormat::plain:
      break;
  }
  return nullptr;
}

// The activations of one call as the kernel of their weights takes them, in panels (linear_tile.h).
struct Activations {
  Panels panels;
  const std::byte* x = nullptr;
  std::int64_t row_bytes = 0;
  const float* scale = nullptr;
  const std::int32_t* term = nullptr;
};

// The caller's rows, and what makes them the input.
struct Source {
  const LinearInput& input;
  const RowKernels& rows;
  std::int64_t k;

  // The row is most likely in another core's cache, which takes a while to give it up.
  void prefetch(std::int64_t row) const {
    const float* x = input.x + row * input.stride;
    for (std::int64_t i = 0; i < k; i += 16) __builtin_prefetch(x + i);
  }

  // Row `row`, in place or in `buffer`, which has room for k floats rounded up to 16.
  const float* row(std::int64_t row, float* buffer) const {
    const float* x = input.x + row * input.stride;
    switch (input.op) {
      case LinearInput::Op::none:
        return x;
      case LinearInput::Op::rms_norm:
        rows.rms_norm(x, k, input.weight, input.eps, buffer);
        break;
      case LinearInput::Op::layer_norm:
        rows.layer_norm(x, k, input.weight, input.bias, input.eps, buffer);
        break;
    }
    return buffer;
  }
};

// body(values, begin, row, height) for each row of each panel: row `begin + row`, in a panel of `height`
// rows.
template <class Body>
void for_panel_rows(const KernelContext& context, const Source& source, const Panels& panels,
                    const Body& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / source.k * panels.count / panels.num_rows);
  for_ranges(context, panels.count, grain, [&](std::int64_t first, std::int64_t last) {
    static thread_local Scratch scratch;
    auto* buffer =
        reinterpret_cast<float*>(scratch.take(static_cast<std::size_t>(round_up(source.k, 16) * 4)));
    const std::int64_t end = panels.begin(last);
    for (std::int64_t panel = first; panel < last; ++panel) {
      const std::int64_t begin = panels.begin(panel), height = panels.begin(panel + 1) - begin;
      for (std::int64_t row = 0; row < height; ++row) {
        if (begin + row + 1 < end) source.prefetch(begin + row + 1);
        body(source.row(begin + row, buffer), begin, row, height);
      }
    }
  });
}

void prepare_floats(const KernelContext& context, const Source& source, Scratch& scratch, Activations& a) {
  const std::int64_t k = source.k;
  a.row_bytes = k * 4;
  auto* out =
      reinterpret_cast<float*>(scratch.take(static_cast<std::size_t>(a.panels.num_rows * a.row_bytes)));
  a.x = reinterpret_cast<const std::byte*>(out);
  for_panel_rows(context, source, a.panels,
                 [&](const float* from, std::int64_t begin, std::int64_t row, std::int64_t height) {
                   float* to = out + begin * k + row;
                   for (std::int64_t i = 0; i < k; ++i) to[i * height] = from[i];
                 });
}

void prepare_bf16(const KernelContext& context, const LinearKernels& kernels, const Source& source,
                  Scratch& scratch, Activations& a) {
  const std::int64_t group = 32 * kernels.bf16_bytes;
  a.row_bytes = ceil_div(source.k, std::int64_t{32}) * group;
  std::byte* out = scratch.take(static_cast<std::size_t>(a.panels.num_rows * a.row_bytes));
  a.x = out;
  for_panel_rows(context, source, a.panels,
                 [&](const float* from, std::int64_t begin, std::int64_t row, std::int64_t height) {
                   kernels.round_row(from, source.k, out + begin * a.row_bytes + row * group, height * group);
                 });
}

void prepare_int8(const KernelContext& context, const LinearKernels& kernels, const Source& source,
                  Scratch& scratch, Activations& a) {
  const std::int64_t rows = a.panels.num_rows, groups = ceil_div(source.k, std::int64_t{64});
  a.row_bytes = groups * 64;
  auto* q = reinterpret_cast<std::int8_t*>(
      scratch.take(static_cast<std::size_t>(rows * (a.row_bytes + groups * 8))));
  auto* const scale = reinterpret_cast<float*>(q + rows * a.row_bytes);
  auto* const term = reinterpret_cast<std::int32_t*>(scale + rows * groups);
  for_panel_rows(context, source, a.panels,
                 [&](const float* from, std::int64_t begin, std::int64_t row, std::int64_t height) {
                   const std::int64_t at = begin * groups + row;
                   kernels.quantize_row(from, source.k,
                                        {.q = q + begin * a.row_bytes + row * 64,
                                         .q_step = height * 64,
                                         .scale = scale + at,
                                         .term = term + at,
                                         .step = height});
                 });
  a.x = reinterpret_cast<const std::byte*>(q);
  a.scale = scale;
  a.term = term;
}

Activations prepare(const KernelContext& context, const LinearKernels& kernels,
                    const PackedLinear::Storage& weight, const LinearInput& input, std::int64_t num_rows) {
  static thread_local Scratch scratch;
  const Source source{input, row_kernels(context.level), weight.k};
  Activations a;
  const auto cut = [&](std::int64_t height) { a.panels = {num_rows, ceil_div(num_rows, height)}; };
  switch (weight.type) {
    case LinearType::float32:
      cut(kernels.f32_rows);
      prepare_floats(context, source, scratch, a);
      break;
    case LinearType::bfloat16:
      cut(kernels.bf16_rows);
      prepare_bf16(context, kernels, source, scratch, a);
      break;
    case LinearType::int8:
      cut(num_rows > kStreamRows                ? kernels.int8_rows
          : weight.has_format(PackedFormat::q4) ? kernels.stream_nibble_rows
                                                : kernels.stream_int8_rows);
      prepare_int8(context, kernels, source, scratch, a);
      break;
  }
  return a;
}

}  // namespace

void linear(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
            std::int64_t num_rows, float* y, const LinearOutput& output) {
  const LinearKernels& kernels = linear_kernels(context.level);
  const Activations a = prepare(context, kernels, weight, input, num_rows);
  const std::int64_t threads = num_threads(context);

  ReadAhead* const read_ahead = num_rows >= kFetchRows ? context.read_ahead : nullptr;

  for (const LinearSegment& segment : weight.runs) {
    const LinearTileFunction compute = tile_function(kernels, segment.format);
    const std::int64_t strips = ceil_div(segment.n, kStrip);
    // Rows of one tile: their activations stay in L2 while the strips go by.
    std::int64_t row_tiles = ceil_div(num_rows * a.row_bytes, std::int64_t{384} << 10);
    // Many rows: to each thread its own in every call, so that they stay in its core's cache. All threads
    // then read (and widen) all weights, which takes that many rows to be worth it.
    if (num_rows >= kOwnRows * threads) row_tiles = round_up(row_tiles, threads);
    row_tiles = std::min(a.panels.count, row_tiles);
    // Strips of one tile: 256 KiB of weights for one row, which is the time of reading them, in proportion
    // fewer for several, while it is not reading that bounds them all; but several tiles for each thread, so
    // that a slow thread costs little.
    const std::int64_t least = num_rows <= kStreamRows ? std::int64_t{64} << 10 : 0;
    const std::int64_t bytes = std::max((std::int64_t{256} << 10) / num_rows, least);
    const std::int64_t share = num_rows < kFetchRows ? 2 : 4;
    std::int64_t strips_per_tile = std::max<std::int64_t>(2, bytes / segment.strip_bytes);
    strips_per_tile = std::min(strips_per_tile, ceil_div(strips, share * threads));
    strips_per_tile = round_up(strips_per_tile, 2);
    const std::int64_t strip_tiles = ceil_div(strips, strips_per_tile);
    const std::byte* const weights = weight.packed.data() + segment.offset;

    const std::int64_t scratch_bytes =
        segment.format == PackedFormat::q4 ? kMaxStrips * strip_bytes(PackedFormat::q8, weight.k) : 0;

    const ReadAhead::Share later =
        read_ahead != nullptr ? read_ahead->take(num_rows * segment.n * weight.k) : ReadAhead::Share{};
    const std::int64_t tiles = strip_tiles * row_tiles;
    for_tiles(context, tiles, [&](std::int64_t tile, int) {
      static thread_local Scratch wide, products;
      const std::int64_t strip = tile / row_tiles * strips_per_tile, row_tile = tile % row_tiles;
      const std::int64_t strip_count = std::min(strips_per_tile, strips - strip);
      const std::int64_t next = (tile + threads) / row_tiles * strips_per_tile;
      const std::int64_t column = segment.n_begin + strip * kStrip;
      const std::int64_t first_panel = a.panels.count * row_tile / row_tiles,
                         last_panel = a.panels.count * (row_tile + 1) / row_tiles;
      const std::int64_t first_row = a.panels.begin(first_panel),
                         rows = a.panels.begin(last_panel) - first_row;
      const ReadAhead::Range tile_later =
          read_ahead != nullptr ? read_ahead->of_tile(later, tile, tiles) : ReadAhead::Range{};
      float* const tile_y = y + first_row * weight.n;
      const std::int64_t columns = strip_count * kStrip;
      // On their way through a function, products stay in the first-level cache.
      float* const buffer =
          output.activation
              ? reinterpret_cast<float*>(products.take(static_cast<std::size_t>(rows * columns * 4)))
              : nullptr;
      compute({
          .weights = weights + strip * segment.strip_bytes,
          .strip_bytes = segment.strip_bytes,
          .k = weight.k,
          .num_strips = strip_count,
          .last_columns = strip + strip_count == strips ? segment.n - (strips - 1) * kStrip : kStrip,
          .next_weights = next + 2 <= strips ? weights + next * segment.strip_bytes : nullptr,
          .panels = a.panels,
          .first_panel = first_panel,
          .last_panel = last_panel,
          .x = a.x,
          .x_row_bytes = a.row_bytes,
          .scale = a.scale,
          .term = a.term,
          .scratch = wide.take(static_cast<std::size_t>(scratch_bytes)),
          .later = read_ahead != nullptr ? read_ahead->pieces.data() : nullptr,
          .later_piece_bytes = read_ahead != nullptr ? read_ahead->piece_bytes : 1,
          .later_begin = tile_later.begin,
          .later_end = tile_later.end,
          .y = buffer != nullptr ? buffer : tile_y + column,
          .first_row = first_row,
          .y_stride = buffer != nullptr ? columns : weight.n,
          .bias = weight.bias.empty() ? nullptr : weight.bias.data() + column,
          .accumulate = output.accumulate,
      });
      if (buffer == nullptr) return;
      const bool gated = weight.form == LinearForm::gated;
      const std::int64_t begin = gated ? column / 2 : column,
                         end = gated ? weight.n : segment.n_begin + segment.n;
      const std::int64_t width = std::min(gated ? columns / 2 : columns, end - begin);
      row_kernels(context.level)
          .activate(*output.activation, gated, buffer, columns, rows, width, tile_y + begin, weight.n);
    });
  }
}

}  // namespace pagoda::cpu
