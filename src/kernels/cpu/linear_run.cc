#include "kernels/cpu/linear_run.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/linear_storage.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {
namespace {

// The products of one tile, in the first-level cache.
struct TileProducts {
  float* values;
  std::int64_t first_row, rows, column, columns;  // whole strips of columns
  std::int64_t end;                               // end of the valid columns
};

// Passes on a tile's products that are not written directly to y.
void pass_on(const KernelContext& context, int thread, const PackedLinear::Storage& weight,
             const TileProducts& tile, const Products& out) {
  const std::int64_t columns = tile.columns, rows = tile.rows;
  if (out.largest != nullptr) {
    const std::int64_t width = std::min(columns, tile.end - tile.column);
    return out.largest->note(thread, tile.first_row, rows, tile.column, width, tile.values, columns);
  }
  const bool gated = weight.form == LinearForm::gated;
  const std::int64_t begin = gated ? tile.column / 2 : tile.column, end = gated ? weight.n : tile.end;
  const std::int64_t width = std::min(gated ? columns / 2 : columns, end - begin);
  const auto activate = kernels_of<RowKernels>(context.level).activate;
  if (out.next == nullptr) {
    return activate(*out.output.activation, gated, tile.values, columns, rows, width,
                    out.y + tile.first_row * weight.n + begin, weight.n);
  }
  activate(*out.output.activation, gated, tile.values, columns, rows, width, tile.values, columns);
  PreparedRows::Place place = out.next->place(tile.first_row);
  for (std::int64_t row = 0; row < rows; ++row, out.next->advance(place))
    out.next->put(place, begin, tile.values + row * columns, width);
}

}  // namespace

std::int64_t group_strips(const PackedLinear::Storage& weight) {
  return 64 / kStrip * (weight.form == LinearForm::gated ? 2 : 1);
}

// How far ahead a tile prefetches its weights. Several panels prefetch the following strips, since only the
// first panel reads its strip from memory; a single panel passes each strip once. The hardware prefetcher
// anticipates the reads of few rows; all values are measured.
std::int64_t bytes_ahead(const KernelContext& context, PackedFormat format, const Panels& panels) {
  const bool few = panels.num_rows < kFetchRows, single = panels.count == 1;
  const bool narrow = is_narrow(format), bytes = panel_layout(format).bits == 8;
  if (context.tuning == CpuTuning::zen5) {
    if (few && bytes) return 0;
    return single && (few || !narrow) ? std::int64_t{8} << 10 : kNextStrips;
  }
  // Widening is the bottleneck for two and three rows of 4-bit weights there.
  if (context.tuning == CpuTuning::zen3) return few && panels.num_rows > 1 && narrow ? 0 : kNextStrips;
  if (!few) return kNextStrips;
  // Intel's hardware prefetcher fetches too little of 8-bit products' weights, which costs a third to half of
  // the time of 4-bit ones.
  if (context.tuning == CpuTuning::intel && (narrow || bytes)) return std::int64_t{4} << 10;
  const bool wide = context.level == CpuLevel::avx512;
  return std::max(panel_layout(format).bits, panel_layout(format).code_bits) > 4 && wide
             ? std::int64_t{2} << 10
             : 0;
}

void multiply_tile(const KernelContext& context, int thread, const PackedLinear::Storage& weight,
                   const LinearSegment& run, const Panels& panels, const RunTile& tile, const Products& out) {
  static thread_local Scratch wide, sums, products;
  const std::int64_t strips = ceil_div(run.n, kStrip);
  const std::int64_t column = run.n_begin + tile.strip * kStrip, columns = tile.num_strips * kStrip;
  const std::int64_t first_row = panels.begin(tile.first_panel),
                     rows = panels.begin(tile.last_panel) - first_row;
  const LinearKernels& kernels = kernels_of<LinearKernels>(context.level);
  const bool whole = has_codes(run.format) && kernels.widens_whole_strips;
  const bool in_parts = is_narrow(run.format) && panels.two_strips && !whole;
  const std::int64_t wide_inputs = whole ? weight.k : widened_inputs(run.format);
  const std::int64_t wide_bytes =
      whole || in_parts ? kMaxStrips * strip_bytes(panel_layout(run.format).wide, wide_inputs) : 0;
  const std::int64_t sum_panels = std::max<std::int64_t>(2, tile.last_panel - tile.first_panel);
  const std::int64_t sum_bytes =
      in_parts ? rows * kMaxStrips * kStrip * 4 : sum_panels * kernels.panel_sum_bytes;
  const bool straight_to_y = !out.output.activation && out.largest == nullptr;
  float* const buffer =
      straight_to_y ? nullptr
                    : reinterpret_cast<float*>(products.take(static_cast<std::size_t>(rows * columns * 4)));
  float* const y = buffer != nullptr ? buffer : out.y + first_row * weight.n + column;
  const std::int64_t y_stride = buffer != nullptr ? columns : weight.n;
  const ReadAhead* const later = tile.read_ahead;
  const LinearTileFunction run_tile = kernels.tiles[static_cast<std::size_t>(run.format)];
  CHECK(run_tile != nullptr);  // packed for this level
  run_tile({
      .weights = weight.packed + run.offset + tile.strip * run.strip_bytes,
      .strip_bytes = run.strip_bytes,
      .k = weight.k,
      .num_strips = tile.num_strips,
      .last_columns = tile.strip + tile.num_strips == strips ? run.n - (strips - 1) * kStrip : kStrip,
      .next_weights = tile.next_weights,
      .bytes_ahead = bytes_ahead(context, run.format, panels),
      .panels = panels,
      .first_panel = tile.first_panel,
      .last_panel = tile.last_panel,
      .x = tile.x,
      .scratch = wide.take(static_cast<std::size_t>(wide_bytes)),
      .sums = reinterpret_cast<float*>(sums.take(static_cast<std::size_t>(sum_bytes))),
      .largest_number = largest_number(run.format),
      .later = later != nullptr ? later->pieces.data() : nullptr,
      .later_piece_bytes = later != nullptr ? later->piece_bytes : 1,
      .later_begin = tile.later.begin,
      .later_end = tile.later.end,
      .y = y,
      .first_row = first_row,
      .y_stride = y_stride,
      .row_scales = weight.arithmetic.scales_rows() ? row_scales(panels, tile.x) : nullptr,
      .bias = weight.bias.empty() ? nullptr : weight.bias.data() + column,
      .accumulate = out.output.accumulate,
      .past_caches = tile.past_caches,
  });
  if (out.addends != nullptr)
    out.addends->add_to(run, {.first_row = first_row,
                              .rows = rows,
                              .column = column,
                              .end = std::min(column + columns, run.n_begin + run.n),
                              .y = y,
                              .y_stride = y_stride});
  if (buffer == nullptr) return;
  pass_on(context, thread, weight,
          {.values = buffer,
           .first_row = first_row,
           .rows = rows,
           .column = column,
           .columns = columns,
           .end = run.n_begin + run.n},
          out);
}

}  // namespace pagoda::cpu
