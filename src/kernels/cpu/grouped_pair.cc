// Products of many matrices, each with its own rows, as one job: first the rows of every group are prepared,
// then the tiles of all groups' first matrices are distributed together, then those of the second matrices.
#include <algorithm>
#include <vector>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/linear_rows.h"
#include "kernels/cpu/linear_run.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/linear_storage.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {
namespace {

// One pair of matrices and its rows, which are adjacent in `out`.
struct Group {
  const PackedLinear::Storage *first, *second;
  std::int64_t start, count;
  PreparedRows input, between;
};

// Part of one group's product with one of its two matrices.
struct GroupTile {
  const Group* group = nullptr;  // null: nothing to do
  const LinearSegment* run = nullptr;
  std::int64_t strip = 0, num_strips = 0, first_panel = 0, last_panel = 0;
  std::int64_t cost = 0;
};

// The tiles of all groups in the order in which the pool distributes them: thread t computes tiles t, t +
// threads, ..., which are adjacent. All threads get the same amount of work.
class GroupTiles {
 public:
  void clear() { tiles_.clear(); }

  void add(const Group& group, const LinearSegment& run, const Panels& panels, std::int64_t unit,
           std::int64_t tile_cost) {
    const std::int64_t strips = ceil_div(run.n, kStrip), units = ceil_div(strips, unit);
    const std::int64_t row_tiles =
        std::min(panels.count, ceil_div(panels.count * panels.bytes, kTileRowBytes));
    const std::int64_t cuts =
        std::clamp<std::int64_t>(strips * cost(run, group.count) / tile_cost / row_tiles, 1, units);
    for (std::int64_t cut = 0; cut < cuts; ++cut) {
      const std::int64_t begin = std::min(strips, units * cut / cuts * unit);
      const std::int64_t end = std::min(strips, units * (cut + 1) / cuts * unit);
      for (std::int64_t part = 0; part < row_tiles; ++part) {
        tiles_.push_back({.group = &group,
                          .run = &run,
                          .strip = begin,
                          .num_strips = end - begin,
                          .first_panel = panels.count * part / row_tiles,
                          .last_panel = panels.count * (part + 1) / row_tiles,
                          .cost = (end - begin) * cost(run, group.count) / row_tiles});
      }
    }
  }

  // The cost of one strip, as the number of bytes of weights that take equally long to read.
  static std::int64_t cost(const LinearSegment& run, std::int64_t rows) {
    constexpr std::int64_t kRowsForFree = 4;
    return run.strip_bytes * std::max(rows, kRowsForFree) / kRowsForFree;
  }

  void deal(std::int64_t threads) {
    std::int64_t total = 0, longest = 0;
    for (const GroupTile& tile : tiles_) total += tile.cost;
    begins_.assign(1, 0);
    std::int64_t done = 0;
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      while (static_cast<std::int64_t>(begins_.size()) < threads &&
             done * threads >= total * static_cast<std::int64_t>(begins_.size()))
        begins_.push_back(static_cast<std::int64_t>(i));
      done += tiles_[i].cost;
    }
    begins_.resize(static_cast<std::size_t>(threads), static_cast<std::int64_t>(tiles_.size()));
    begins_.push_back(static_cast<std::int64_t>(tiles_.size()));
    for (std::size_t t = 0; t + 1 < begins_.size(); ++t)
      longest = std::max(longest, begins_[t + 1] - begins_[t]);
    count_ = longest * threads;
    threads_ = threads;
  }
  std::int64_t count() const { return count_; }
  const GroupTile* find(std::int64_t tile) const {
    const auto thread = static_cast<std::size_t>(tile % threads_);
    const std::int64_t at = begins_[thread] + tile / threads_;
    return at < begins_[thread + 1] ? &tiles_[static_cast<std::size_t>(at)] : nullptr;
  }
  const GroupTile* after(std::int64_t tile) const { return find(tile + threads_); }

 private:
  std::vector<GroupTile> tiles_;
  std::vector<std::int64_t> begins_;  // start of each thread's part, and the end
  std::int64_t count_ = 0, threads_ = 1;
};

// The work per tile, chosen so that little is left over at the end and no tile is too small.
std::int64_t cost_of_tile(std::int64_t total, std::int64_t threads) {
  return std::clamp<std::int64_t>(total / (threads * 8), std::int64_t{64} << 10, std::int64_t{1} << 20);
}

// The source of the groups' rows: the input, normalised once for all groups.
const float* plain_rows(const KernelContext& context, const LinearInput& input, std::int64_t num_rows,
                        std::int64_t k, std::int64_t* stride) {
  *stride = input.stride;
  if (input.op == LinearInput::Op::none) return input.x;
  static thread_local Scratch scratch;
  *stride = round_up(k, kStrip);
  auto* const out = reinterpret_cast<float*>(scratch.take(static_cast<std::size_t>(num_rows * *stride) * 4));
  const RowKernels& kernels = kernels_of<RowKernels>(context.level);
  const std::int64_t width = *stride;
  for_ranges(context, num_rows, std::max<std::int64_t>(1, 8192 / k),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) {
                 const float* const x = input.x + row * input.stride;
                 if (input.op == LinearInput::Op::rms_norm)
                   kernels.rms_norm(x, k, input.weight, input.eps, out + row * width);
                 else
                   kernels.layer_norm(x, k, input.weight, input.bias, input.eps, out + row * width);
               }
             });
  return out;
}

class GroupedPair {
 public:
  GroupedPair(const KernelContext& context, std::span<const PackedLinear> first,
              std::span<const PackedLinear> second, const RowGroups& groups);
  void prepare(const LinearInput& input, std::int64_t num_rows);
  void multiply(Activation activation, float* out);

 private:
  void fill_between(Activation activation);
  template <class RowsOf, class MatrixOf, class OutOf>
  void run(const RowsOf& rows_of, const MatrixOf& matrix_of, std::int64_t unit_of_64, const OutOf& out_of);

  const KernelContext& context_;
  const RowGroups& rows_;
  std::vector<Group> groups_;
  std::vector<std::int32_t> group_of_;  // by place
};

GroupedPair::GroupedPair(const KernelContext& context, std::span<const PackedLinear> first,
                         std::span<const PackedLinear> second, const RowGroups& groups)
    : context_(context), rows_(groups) {
  static thread_local Scratch scratch;
  std::int64_t bytes = 0;
  for (std::size_t m = 0; m < first.size(); ++m) {
    const std::int64_t start = groups.starts[m], count = groups.starts[m + 1] - start;
    if (count == 0) continue;
    const PackedLinear::Storage &in = first[m].storage(), &out = second[m].storage();
    groups_.push_back(
        {&in, &out, start, count, PreparedRows(context, in, count), PreparedRows(context, out, count)});
    group_of_.insert(group_of_.end(), static_cast<std::size_t>(count),
                     static_cast<std::int32_t>(groups_.size() - 1));
    bytes += groups_.back().input.bytes() + groups_.back().between.bytes();
  }
  std::byte* next = scratch.take(static_cast<std::size_t>(bytes));
  for (Group& group : groups_) {
    group.input.lie_at(next);
    next += group.input.bytes();
    group.between.lie_at(next);
    next += group.between.bytes();
  }
}

void GroupedPair::prepare(const LinearInput& input, std::int64_t num_rows) {
  const std::int64_t k = groups_.front().first->k;
  std::int64_t stride = 0;
  const float* const x = plain_rows(context_, input, num_rows, k, &stride);
  const auto places = static_cast<std::int64_t>(rows_.rows.size());
  for_ranges(
      context_, places, std::max<std::int64_t>(1, 16384 / k), [&](std::int64_t begin, std::int64_t end) {
        static thread_local Scratch scratch;
        for (std::int64_t place = begin; place < end; ++place) {
          const auto at = static_cast<std::size_t>(place);
          const Group& group = groups_[static_cast<std::size_t>(group_of_[at])];
          const float* row = x + rows_.rows[at] * stride;
          if (!rows_.factors.empty()) {
            auto* const scaled = reinterpret_cast<float*>(scratch.take(static_cast<std::size_t>(k) * 4));
            for (std::int64_t i = 0; i < k; ++i) scaled[i] = row[i] * rows_.factors[at];
            row = scaled;
          }
          group.input.put(group.input.place(place - group.start), 0, row, k);
        }
      });
}

template <class RowsOf, class MatrixOf, class OutOf>
void GroupedPair::run(const RowsOf& rows_of, const MatrixOf& matrix_of, std::int64_t unit_of_64,
                      const OutOf& out_of) {
  static thread_local GroupTiles own_tiles;
  GroupTiles& tiles = own_tiles;  // belongs to the calling thread
  const std::int64_t threads = num_threads(context_);
  std::int64_t total = 0;
  for (const Group& group : groups_)
    for (const LinearSegment& run : matrix_of(group).runs)
      total += ceil_div(run.n, kStrip) * GroupTiles::cost(run, group.count);
  tiles.clear();
  for (const Group& group : groups_) {
    const std::int64_t unit = unit_of_64 != 0 ? group_strips(matrix_of(group)) : 2;
    for (const LinearSegment& run : matrix_of(group).runs)
      tiles.add(group, run, rows_of(group).panels(), unit, cost_of_tile(total, threads));
  }
  tiles.deal(threads);
  for_tiles(context_, tiles.count(), [&](std::int64_t index, int thread) {
    const GroupTile* const tile = tiles.find(index);
    if (tile == nullptr) return;
    const GroupTile* const next = tiles.after(index);
    multiply_tile(context_, thread, matrix_of(*tile->group), *tile->run, rows_of(*tile->group).panels(),
                  {.x = rows_of(*tile->group).data(),
                   .strip = tile->strip,
                   .num_strips = tile->num_strips,
                   .first_panel = tile->first_panel,
                   .last_panel = tile->last_panel,
                   .next_weights = next != nullptr ? matrix_of(*next->group).packed + next->run->offset +
                                                         next->strip * next->run->strip_bytes
                                                   : nullptr},
                  out_of(*tile->group));
  });
}

// Computes the products of the first matrices as input of the second.
void GroupedPair::fill_between(Activation activation) {
  const auto input = [](const Group& group) -> const PreparedRows& { return group.input; };
  const auto first = [](const Group& group) -> const PackedLinear::Storage& { return *group.first; };
  const Group& any = groups_.front();
  if (!any.second->needs_whole_rows()) {
    return run(input, first, 1, [&](const Group& group) {
      return Products{.next = &group.between, .output = {.activation = activation}};
    });
  }
  static thread_local Scratch scratch;
  const auto places = static_cast<std::int64_t>(rows_.rows.size());
  const std::int64_t width = any.first->n;
  auto* const products = reinterpret_cast<float*>(scratch.take(static_cast<std::size_t>(places * width) * 4));
  run(input, first, 1, [&](const Group& group) {
    return Products{.y = products + group.start * width, .output = {.activation = activation}};
  });
  for_ranges(
      context_, places, std::max<std::int64_t>(1, 16384 / width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t place = begin; place < end; ++place) {
          const Group& group = groups_[static_cast<std::size_t>(group_of_[static_cast<std::size_t>(place)])];
          group.between.put(group.between.place(place - group.start), 0, products + place * width, width);
        }
      });
}

void GroupedPair::multiply(Activation activation, float* out) {
  fill_between(activation);
  run([](const Group& group) -> const PreparedRows& { return group.between; },
      [](const Group& group) -> const PackedLinear::Storage& { return *group.second; }, 0,
      [&](const Group& group) { return Products{.y = out + group.start * group.second->n}; });
}

}  // namespace

void grouped_pair(const KernelContext& context, std::span<const PackedLinear> first, Activation activation,
                  std::span<const PackedLinear> second, const LinearInput& input, std::int64_t num_rows,
                  const RowGroups& groups, float* out) {
  GroupedPair pair(context, first, second, groups);
  pair.prepare(input, num_rows);
  pair.multiply(activation, out);
}

}  // namespace pagoda::cpu
