// linear on the CPU: cuts products into tiles and distributes them.
#include "kernels/linear.h"

#include <algorithm>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/largest_of_rows.h"
#include "kernels/cpu/linear_run.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/scratch.h"
#include "kernels/linear_storage.h"
#include "kernels/read_ahead.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {
namespace {

// The strips of a run, cut into tiles of nearly equal height; units are never split.
class StripTiles {
 public:
  // in_pieces: the tiles of one thread (ThreadPool) are adjacent. If threads alternated, the hardware
  // prefetcher would fetch the other thread's weights and results after each tile.
  StripTiles(std::int64_t strips, std::int64_t unit, std::int64_t count, std::int64_t threads, bool in_pieces)
      : strips_(strips), unit_(unit), units_(ceil_div(strips, unit)), count_(std::min(units_, count)) {
    if (in_pieces && count_ > threads) {
      threads_ = threads;
      count_ -= count_ % threads;
    }
  }
  std::int64_t strips() const { return strips_; }
  std::int64_t count() const { return count_; }
  // Maps a tile index of for_tiles to its place.
  std::int64_t place(std::int64_t tile) const {
    return tile % threads_ * (count_ / threads_) + tile / threads_;
  }
  std::int64_t begin(std::int64_t place) const { return std::min(strips_, units_ * place / count_ * unit_); }

 private:
  std::int64_t strips_, unit_, units_, count_, threads_ = 1;
};

// The number of tiles into which the strips of a run are cut.
std::int64_t num_strip_tiles(std::int64_t strips, std::int64_t strip_bytes, std::int64_t unit,
                             std::int64_t num_rows, std::int64_t threads) {
  // Few rows are bound by memory, which is fastest as one long stream.
  if (num_rows < kFetchRows) return threads * ceil_div(strips * strip_bytes, threads << 20);
  // 256 KiB of weights for one row, whose time is that of reading them, and proportionally less for more
  // rows, unless all are bound by reading. Always several tiles per thread, so that a slow thread costs
  // little.
  const std::int64_t least = num_rows <= kStreamRows ? std::int64_t{64} << 10 : 0;
  const std::int64_t bytes = std::max((std::int64_t{256} << 10) / num_rows, least);
  const std::int64_t of_tile =
      std::min(std::max<std::int64_t>(1, bytes / strip_bytes), ceil_div(strips, 4 * threads));
  return ceil_div(strips, round_up(of_tile, unit));
}

// row_tiles: the number of tiles into which the rows are also cut.
StripTiles cut_strips(const LinearSegment& segment, std::int64_t unit, std::int64_t num_rows,
                      std::int64_t row_tiles, std::int64_t threads) {
  const std::int64_t strips = ceil_div(segment.n, kStrip);
  return {strips, unit, num_strip_tiles(strips, segment.strip_bytes, unit, num_rows, threads), threads,
          row_tiles == 1};
}

// The start of the run of weights that a thread multiplies after this one, with the same number of rows.
const std::byte* first_of_next_run(const PackedLinear::Storage& weight, const LinearSegment& run,
                                   std::int64_t num_rows, std::int64_t threads, int thread) {
  const bool last = &run == &weight.runs.back();
  const PackedLinear::Storage* const next = last ? weight.next : &weight;
  if (next == nullptr || next->runs.empty() || num_rows > kStreamRows) return nullptr;
  const LinearSegment& segment = last ? next->runs.front() : *(&run + 1);
  // Cut as multiply() cuts a gated pair or a single matrix; for another pair, a tile may begin slightly
  // elsewhere.
  const std::int64_t unit = next->form == LinearForm::gated ? group_strips(*next) : 2;
  const StripTiles cut = cut_strips(segment, unit, num_rows, 1, threads);
  if (thread >= cut.count()) return nullptr;
  return next->packed + segment.offset + cut.begin(cut.place(thread)) * segment.strip_bytes;
}

// True for results that no cache will hold until they are read: bypassing the caches avoids reading a line
// before writing it. Such stores must start at a line, and nothing may be added to the results.
bool goes_past_caches(const Products& out, std::int64_t num_rows, std::int64_t columns,
                      const LinearSegment& segment) {
  constexpr std::int64_t kBytes = std::int64_t{4} << 20;
  return out.output.read_late && out.addends == nullptr && num_rows * columns * 4 >= kBytes &&
         columns % kStrip == 0 && segment.n_begin % kStrip == 0 &&
         reinterpret_cast<std::uintptr_t>(out.y) % 64 == 0;
}

// Rows: PreparedRows or InputRows.
template <class Rows>
void multiply(const KernelContext& context, const PackedLinear::Storage& weight, const Rows& input,
              const Products& out) {
  const Panels& panels = input.panels();
  const std::int64_t num_rows = panels.num_rows, threads = num_threads(context);
  ReadAhead* const read_ahead = num_rows >= kFetchRows ? context.read_ahead : nullptr;

  for (const LinearSegment& segment : weight.runs) {
    // Rows per tile: their activations stay in L2 while the strips pass by.
    std::int64_t row_tiles = ceil_div(panels.count * panels.bytes, kTileRowBytes);
    // With many rows, each thread keeps the same rows in every call, so that they stay in its core's cache.
    // All threads then read (and widen) all weights, which pays off only with that many rows.
    if (num_rows >= kOwnRows * threads) row_tiles = round_up(row_tiles, threads);
    row_tiles = std::min(panels.count, row_tiles);
    const std::int64_t unit = out.next != nullptr ? group_strips(weight) : 2;
    const StripTiles cut = cut_strips(segment, unit, num_rows, row_tiles, threads);
    const std::int64_t strips = cut.strips();
    const std::byte* const weights = weight.packed + segment.offset;
    const bool ahead = bytes_ahead(context, segment.format, panels) != 0;

    const bool past_caches = goes_past_caches(out, num_rows, weight.n, segment);
    const ReadAhead::Share later =
        read_ahead != nullptr ? read_ahead->take(num_rows * segment.n * weight.k) : ReadAhead::Share{};
    const std::int64_t tiles = cut.count() * row_tiles;
    for_tiles(context, tiles, [&](std::int64_t tile, int thread) {
      const std::int64_t place = cut.place(tile / row_tiles), row_tile = tile % row_tiles;
      const std::int64_t strip = cut.begin(place);
      const bool last = tile + threads >= tiles;  // the last tile of this thread
      const std::int64_t next = last ? strips : cut.begin(cut.place((tile + threads) / row_tiles));
      multiply_tile(
          context, thread, weight, segment, panels,
          {.x = input.data(),
           .strip = strip,
           .num_strips = cut.begin(place + 1) - strip,
           .first_panel = panels.count * row_tile / row_tiles,
           .last_panel = panels.count * (row_tile + 1) / row_tiles,
           .next_weights = next + 2 <= strips ? weights + next * segment.strip_bytes
                           : last && ahead    ? first_of_next_run(weight, segment, num_rows, threads, thread)
                                              : nullptr,
           .past_caches = past_caches,
           .read_ahead = read_ahead,
           .later = read_ahead != nullptr ? read_ahead->of_tile(later, tile, tiles) : ReadAhead::Range{}},
          out);
    });
  }
}

}  // namespace

void linear(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
            std::int64_t num_rows, float* y, const LinearOutput& output) {
  static thread_local Scratch scratch;
  const RowAddends addends(context, weight, input, num_rows);
  const InputRows rows(context, weight, input, num_rows, scratch);
  multiply(context, weight, rows, {.y = y, .addends = addends.or_null(), .output = output});
}

bool can_pair(const PackedLinear::Storage& first, const PackedLinear::Storage& second) {
  if (second.needs_whole_rows()) return false;
  const std::int64_t matrices = first.form == LinearForm::gated ? 2 : 1;
  return std::all_of(first.runs.begin(), first.runs.end(),
                     [&](const LinearSegment& run) { return run.n_begin % (64 * matrices) == 0; });
}

void linear_pair(const KernelContext& context, const PackedLinear::Storage& first, Activation activation,
                 const PackedLinear::Storage& second, const LinearInput& input, std::int64_t num_rows,
                 float* y) {
  static thread_local Scratch input_scratch, between_scratch;
  const InputRows rows(context, first, input, num_rows, input_scratch);
  const PreparedRows between(context, second, num_rows, between_scratch);
  multiply(context, first, rows, {.next = &between, .output = {.activation = activation}});
  multiply(context, second, between, {.y = y, .output = {.accumulate = true}});
}

void linear_max(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
                std::span<LogitMax> largest) {
  static thread_local Scratch input_scratch, largest_scratch;
  const auto num_rows = static_cast<std::int64_t>(largest.size());
  const RowAddends addends(context, weight, input, num_rows);
  const InputRows rows(context, weight, input, num_rows, input_scratch);
  LargestOfRows found(context, num_rows, largest_scratch);
  multiply(context, weight, rows, {.largest = &found, .addends = addends.or_null()});
  for (std::int64_t row = 0; row < num_rows; ++row)
    largest[static_cast<std::size_t>(row)] = found.largest(row);
}

}  // namespace pagoda::cpu
