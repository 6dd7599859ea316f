// Exchanges parts of rows among ranks on several devices, through windows or by the device's own library: as
// many rows at a time as fit into a window.
#include <algorithm>

#include "kernels/device/ops.h"

namespace pagoda::device_ops {
namespace {

// The group from whose windows the parts of all ranks can be read; the widest part has `floats` floats. With
// windows, the ranks only meet. The library gathers parts of equal size, contiguous: the result in this
// rank's own memory is laid out as if each rank had a window whose first half was never written.
device::RankGroup bring_parts(DeviceOps& ops, std::int64_t floats) {
  device::RankGroup group = ops.ranks().group;
  if (!ops.ranks().library) {
    ops.keep(ops.layers().meet_ranks({.group = group, .patience = ops.ranks().patience}));
    return group;
  }
  float* const room = reinterpret_cast<float*>(group.own);
  float* const own = room + device::kWordsOfWindow;
  ops.gather_of_group(own, own + group.half, floats);
  for (std::int32_t rank = 0; rank < group.size; ++rank)
    group.words[rank] = reinterpret_cast<device::WindowWords*>(room + rank * floats);
  return group;
}

// Calls share(first, count) and take(first, count, group) for pieces of the rows whose widest part fits the
// window; every rank uses the same pieces.
template <class Share, class Take>
void by_pieces(DeviceOps& ops, std::int64_t num_rows, std::int64_t widest, const Share& share,
               const Take& take) {
  const device::RankGroup& group = ops.ranks().group;
  CHECK(widest > 0 && widest <= group.half);
  const std::int64_t most = group.half / widest;
  for (std::int64_t first = 0; first < num_rows; first += most) {
    const std::int64_t count = std::min(most, num_rows - first);
    share(first, count);
    take(first, count, bring_parts(ops, count * widest));
  }
}

}  // namespace

void gather_columns(DeviceOps& ops, std::span<const std::int64_t> ends, std::int64_t num_rows,
                    const Buffer& own, const Buffer& all, RankResult result) {
  const device::RankGroup& group = ops.ranks().group;
  CHECK(std::ssize(ends) == group.size);
  device::CollectRowsArgs collect = {.group = group, .out = {}, .ends = {}};
  std::int64_t widest = 0, width = 0, before = 0;
  for (std::size_t rank = 0; rank < ends.size(); before = ends[rank++]) {
    collect.ends[rank] = i32(ends[rank]);
    widest = std::max(widest, ends[rank] - before);
    if (std::cmp_equal(rank, group.rank)) width = ends[rank] - before;
  }
  by_pieces(
      ops, num_rows, widest,
      [&](std::int64_t first, std::int64_t count) {
        ops.keep(ops.layers().share_rows(
            {.group = group, .rows = strided(own.at(first)), .width = i32(width)}, count));
      },
      [&](std::int64_t first, std::int64_t count, const device::RankGroup& there) {
        if (result == RankResult::of_first && group.rank != 0) return;
        collect.group = there;
        collect.out = strided(all.at(first));
        ops.keep(ops.layers().collect_rows(collect, count));
      });
  if (all) ops.wrote(all, num_rows);
}

void sum_ranks(DeviceOps& ops, RowShape shape, const Buffer& x) {
  const device::RankGroup& group = ops.ranks().group;
  if (ops.ranks().library) {
    CHECK(x.stride == shape.width);
    if (shape.num_rows > 0) ops.sum_over_group(floats(x), shape.num_rows * shape.width);
    return ops.wrote(x, shape.num_rows);
  }
  by_pieces(
      ops, shape.num_rows, shape.width,
      [&](std::int64_t first, std::int64_t count) {
        ops.keep(ops.layers().share_rows(
            {.group = group, .rows = strided(x.at(first)), .width = i32(shape.width)}, count));
      },
      [&](std::int64_t first, std::int64_t count, const device::RankGroup& there) {
        ops.keep(ops.layers().sum_rows(
            {.group = there, .out = strided(x.at(first)), .width = i32(shape.width)}, count));
      });
  ops.wrote(x, shape.num_rows);
}

}  // namespace pagoda::device_ops
