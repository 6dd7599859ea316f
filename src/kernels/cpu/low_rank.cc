#include "kernels/cpu/low_rank.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {
namespace {

constexpr std::int64_t kLanes = LowRank::kStrip;

}  // namespace

RowAddends::RowAddends(const KernelContext& context, const PackedLinear::Storage& weight,
                       const LinearInput& input, std::int64_t num_rows)
    : weight_(weight), kernels_(kernels_of<LowRankKernels>(context.level)) {
  if (!any_adapter(input.adapters, num_rows, {weight.adapter_slot})) return;
  static thread_local std::vector<Row> rows;
  find_rows(input, num_rows, rows);
  take_inputs(context, input, rows);
  rows_ = rows;
  make_dots(context);
}

// Finds the rows that have factors, and allocates memory for A x.
void RowAddends::find_rows(const LinearInput& input, std::int64_t num_rows, std::vector<Row>& rows) {
  static thread_local Scratch scratch;
  std::int64_t floats = 0;
  rows.clear();
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const AdapterFactors* const own = input.adapters[row];
    const LowRank* const factors = own != nullptr ? own->of(weight_.adapter_slot) : nullptr;
    if (factors == nullptr) continue;
    rows.push_back({.row = row, .factors = factors});
    floats += factors->rank();
  }
  auto* next = reinterpret_cast<float*>(scratch.take(static_cast<std::size_t>(floats) * sizeof(float)));
  for (Row& row : rows) {
    row.u = next;
    next += row.factors->rank();
  }
}

// The rows as the product sees them, before rounding: in place, or copied to a multiple of 16 floats.
void RowAddends::take_inputs(const KernelContext& context, const LinearInput& input, std::span<Row> rows) {
  static thread_local Scratch scratch;
  const std::int64_t k = weight_.k, width = round_up(k, kLanes);
  const bool in_place = input.op == LinearInput::Op::none && k == width;
  const std::size_t bytes = rows.size() * static_cast<std::size_t>(width) * sizeof(float);
  auto* const copies = in_place ? nullptr : reinterpret_cast<float*>(scratch.take(bytes));
  const RowKernels& kernels = kernels_of<RowKernels>(context.level);
  const auto take = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      Row& row = rows[static_cast<std::size_t>(i)];
      const float* const x = input.x + row.row * input.stride;
      row.x = x;
      if (in_place) continue;
      float* const copy = copies + i * width;
      row.x = copy;
      if (input.op == LinearInput::Op::rms_norm)
        kernels.rms_norm(x, k, input.weight, input.eps, copy);
      else if (input.op == LinearInput::Op::layer_norm)
        kernels.layer_norm(x, k, input.weight, input.bias, input.eps, copy);
      else
        std::copy_n(x, k, copy);
      std::fill(copy + k, copy + width, 0.0f);
    }
  };
  if (in_place) return take(0, std::ssize(rows));
  for_ranges(context, std::ssize(rows), std::max<std::int64_t>(1, 16384 / k), take);
}

// Adjacent rows with the same factors read A together; which rows and ranks are computed together changes no
// bit.
void RowAddends::make_dots(const KernelContext& context) const {
  constexpr std::int64_t kRows = kLowRankRows, kRanks = 8, kGrain = 32768;
  struct Part {
    std::size_t first_row = 0, rows = 0;
    std::int32_t first_rank = 0, ranks = 0;
  };
  static thread_local std::vector<Part> room;
  std::vector<Part>& parts = room;  // belongs to the calling thread
  parts.clear();
  for (std::size_t first = 0; first < rows_.size();) {
    const LowRank* const factors = rows_[first].factors;
    std::size_t end = first;
    while (end < rows_.size() && end < first + kRows && rows_[end].factors == factors) ++end;
    for (std::int32_t rank = 0; rank < factors->rank(); rank += kRanks)
      parts.push_back({first, end - first, rank, std::min<std::int32_t>(kRanks, factors->rank() - rank)});
    first = end;
  }
  const std::int64_t cost = kRanks * weight_.k;
  for_ranges(context, std::ssize(parts), std::max<std::int64_t>(1, kGrain / cost),
             [&](std::int64_t begin, std::int64_t stop) {
               for (const Part& part : std::span(parts).subspan(static_cast<std::size_t>(begin),
                                                                static_cast<std::size_t>(stop - begin))) {
                 const float* x[kRows];
                 float* u[kRows];
                 for (std::size_t i = 0; i < part.rows; ++i) {
                   x[i] = rows_[part.first_row + i].x;
                   u[i] = rows_[part.first_row + i].u + part.first_rank;
                 }
                 const LowRank& factors = *rows_[part.first_row].factors;
                 kernels_.dots({.rows = factors.right(part.first_rank),
                                .bfloat16 = factors.type() == LowRank::Type::bfloat16,
                                .width = factors.padded_k(),
                                .count = part.ranks,
                                .x = x,
                                .num_x = static_cast<std::int64_t>(part.rows),
                                .u = u});
               }
             });
}

// Adds outputs [begin, end) of a piece to rows with the same factors; the first output is `column` floats
// after the start of a row in the tile. The outputs of a partial strip are summed like those of a whole one.
void RowAddends::add_piece(std::span<const Row> rows, const LowRank::Piece& piece, std::int64_t begin,
                           std::int64_t end, const AddendTile& tile, std::int64_t column,
                           std::int64_t y_step) const {
  const LowRank& factors = *rows.front().factors;
  const float* u[kLowRankRows];
  float* y[kLowRankRows];
  const std::size_t count = rows.size();
  for (std::size_t i = 0; i < count; ++i) {
    u[i] = rows[i].u + piece.first_rank;
    y[i] = tile.y + (rows[i].row - tile.first_row) * tile.y_stride + column;
  }
  LowRankSum sum = {.bfloat16 = factors.type() == LowRank::Type::bfloat16,
                    .rank = piece.rank,
                    .scale = piece.scale,
                    .num_rows = static_cast<std::int64_t>(count),
                    .u = u,
                    .y = y,
                    .y_step = y_step};
  while (begin < end) {
    const std::int64_t lane = begin % kLanes, left = end - begin;
    sum.strips = factors.left(piece, begin / kLanes);
    std::int64_t step = 0;
    if (lane == 0 && left >= kLanes) {
      sum.num_strips = left / kLanes;
      kernels_.add(sum);
      step = sum.num_strips * y_step;
      begin += sum.num_strips * kLanes;
    } else {
      step = std::min(left, kLanes - lane);
      float lanes[kLowRankRows][kLanes] = {};
      float* whole[kLowRankRows];
      for (std::size_t i = 0; i < count; ++i) {
        std::copy_n(y[i], step, lanes[i] + lane);
        whole[i] = lanes[i];
      }
      sum.num_strips = 1;
      sum.y = whole;
      kernels_.add(sum);
      sum.y = y;
      for (std::size_t i = 0; i < count; ++i) std::copy_n(lanes[i] + lane, step, y[i]);
      begin += step;
    }
    for (std::size_t i = 0; i < count; ++i) y[i] += step;
  }
}

// Adds the factors to rows that share them.
void RowAddends::add_factors(std::span<const Row> rows, const LinearSegment& run,
                             const AddendTile& tile) const {
  for (const LowRank::Piece& piece : rows.front().factors->pieces()) {
    if (weight_.form != LinearForm::gated) {
      const std::int64_t begin = std::max(piece.first_output, tile.column),
                         end = std::min(piece.first_output + piece.outputs, tile.end);
      if (begin < end)
        add_piece(rows, piece, begin - piece.first_output, end - piece.first_output, tile,
                  begin - tile.column, kLanes);
      continue;
    }
    // Strips of gate and up alternate; a piece belongs to one of the two.
    const std::int64_t half = piece.first_output / weight_.n, of_half = piece.first_output % weight_.n;
    CHECK(of_half % kLanes == 0 && of_half + piece.outputs <= weight_.n);
    const std::int64_t strip = (tile.column - run.n_begin) / kLanes,
                       end_strip = ceil_div(tile.end - run.n_begin, kLanes);
    const std::int64_t own = strip + (strip % 2 != half ? 1 : 0), count = ceil_div(end_strip - own, 2);
    const std::int64_t tile_begin = own / 2 * kLanes, tile_end = tile_begin + count * kLanes;
    const std::int64_t begin = std::max(of_half, tile_begin),
                       end = std::min(of_half + piece.outputs, tile_end);
    if (begin < end)
      add_piece(rows, piece, begin - of_half, end - of_half, tile,
                (own - strip) * kLanes + (begin - tile_begin) * 2, 2 * kLanes);
  }
}

void RowAddends::add_to(const LinearSegment& run, const AddendTile& tile) const {
  const auto last = std::ranges::lower_bound(rows_, tile.first_row + tile.rows, {}, &Row::row);
  for (auto row = std::ranges::lower_bound(rows_, tile.first_row, {}, &Row::row); row < last;) {
    auto end = row;
    while (end < last && end - row < kLowRankRows && end->factors == row->factors) ++end;
    add_factors({row, end}, run, tile);
    row = end;
  }
}

}  // namespace pagoda::cpu
