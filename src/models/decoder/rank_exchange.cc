#include "models/decoder/rank_exchange.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/device/ops.h"

namespace pagoda {
namespace {

std::vector<std::int64_t> ends_of(std::span<const Range> ranges) {
  std::vector<std::int64_t> ends;
  for (const Range& range : ranges) ends.push_back(range.end());
  return ends;
}

}  // namespace

std::int64_t RankExchange::workspace_for(const TensorShard& shard, std::int64_t rows, std::int64_t width,
                                         std::int64_t whole, std::int64_t hidden) {
  if (shard.size == 1) return 0;
  if (shard.exchange == ExchangeKind::sum) return std::max(padded(rows * hidden), 3 * padded(rows * whole));
  return 3 * padded(rows * std::max({width, whole, hidden}));
}

RankExchange::RankExchange(const ParallelContext& parallel, const TensorShard& shard, const Buffer& room)
    : parallel_(parallel),
      split_(shard.size > 1),
      gathers_(split_ && shard.exchange == ExchangeKind::gather),
      hidden_(shard.hidden),
      workspace_(room) {}

Status RankExchange::sum(std::int64_t count, const Buffer& data) const {
  if (!split_) return ok_status();
  return parallel_.communicator->all_reduce_sum({floats(data), static_cast<std::size_t>(count)},
                                                parallel_.timeout);
}

Status RankExchange::sum_rows(const KernelContext& context, RowShape shape, const Buffer& rows) const {
  if (!split_ || !on_device(context)) return sum(shape.num_rows * shape.width, rows);
  device_ops::sum_ranks(*context.device, shape, rows.with_stride(shape.width));
  return ok_status();
}

Status RankExchange::gather(std::span<const std::size_t> sizes, const Buffer& all) const {
  const auto rank = static_cast<std::ptrdiff_t>(parallel_.rank());
  std::size_t first = 0;
  for (auto size = sizes.begin(); size != sizes.begin() + rank; ++size) first += *size;
  float* const parts = floats(all);
  return parallel_.communicator->all_gather({parts + first, sizes[static_cast<std::size_t>(rank)]}, sizes,
                                            parts, parallel_.timeout);
}

Status RankExchange::bring_to_first(const KernelContext& context, std::span<const Range> columns,
                                    std::int64_t count, const Buffer& own, const Buffer& between,
                                    const Buffer& all) const {
  const auto rank = static_cast<std::size_t>(parallel_.rank());
  if (on_device(context)) {
    device_ops::gather_columns(*context.device, ends_of(columns), count, own.with_stride(columns[rank].count),
                               all, device_ops::RankResult::of_first);
    return ok_status();
  }
  std::vector<std::size_t> bytes;
  for (const Range& part : columns)
    bytes.push_back(static_cast<std::size_t>(count * part.count) * sizeof(float));
  const std::span mine(floats(own), static_cast<std::size_t>(count * columns[rank].count));
  const Buffer& parts = count == 1 ? all : between;  // a single row needs no reordering
  PAGODA_RETURN_IF_ERROR(
      parallel_.communicator->gather(std::as_bytes(mine), bytes, parts.data, parallel_.timeout));
  if (rank != 0 || count == 1) return ok_status();
  for (const Range& part : columns)
    copy_rows(context, {count, part.count}, parts.at(0, count * part.first).with_stride(part.count),
              all.at(0, part.first));
  return ok_status();
}

// [count, own columns] of each rank -> [count, all columns]. The ranks' columns are in order, without gaps.
Status RankExchange::gather_parts(const KernelContext& context, std::span<const Range> ranges,
                                  const Buffer& own, std::int64_t count, const Buffer& all) {
  const auto rank = static_cast<std::size_t>(parallel_.rank());
  if (on_device(context)) {
    device_ops::gather_columns(*context.device, ends_of(ranges), count, own, all);
    return ok_status();
  }
  const Buffer parts = count == 1 ? all : workspace_;  // a single row needs no reordering
  const auto part = [&](const Range& range) {
    return parts.at(0, range.first * count).with_stride(range.count);
  };
  sizes_.clear();
  for (const Range& range : ranges) sizes_.push_back(static_cast<std::size_t>(range.count * count));
  copy_rows(context, {count, ranges[rank].count}, own, part(ranges[rank]));
  PAGODA_RETURN_IF_ERROR(gather(sizes_, parts));
  if (count == 1) return ok_status();
  for (const Range& range : ranges)
    copy_rows(context, {count, range.count}, part(range), all.at(0, range.first));
  return ok_status();
}

Buffer RankExchange::whole_rows(const KernelContext& context, std::span<const Range> columns,
                                const Buffer& own, std::int64_t count, bool second) {
  if (!split_) return own;
  const std::int64_t width = columns.back().end();
  const Buffer whole = workspace_.at(0, (second ? 2 : 1) * padded(count * width)).with_stride(width);
  const Status status = gather_parts(context, columns, own, count, whole);
  if (lost_.ok()) lost_ = status;
  return whole;
}

void RankExchange::keep_own(const KernelContext& context, Range columns, const Buffer& whole,
                            std::int64_t count, const Buffer& own) const {
  if (split_) copy_rows(context, {count, columns.count}, whole.at(0, columns.first), own);
}

Status RankExchange::last_product(const KernelContext& context, const PackedLinear& weight,
                                  std::span<const Range> columns, const Buffer& input, RowAdapters adapters,
                                  std::int64_t count, bool accumulate, const Buffer& y) {
  LinearInput own = LinearInput::rows(input.with_stride(weight.k()));
  CHECK(!split_ || adapters == nullptr);
  if (!lost_.ok()) return lost_;
  if (!split_) {
    own.adapters = adapters;
    linear(context, weight, own, count, y, {.accumulate = accumulate});
    return ok_status();
  }
  const std::int64_t width = columns.back().end(), hidden = hidden_.back().end();
  const auto take = [&](const Buffer& product) {
    const RowShape shape = {count, hidden};
    if (accumulate)
      add_rows(context, shape, 1, product, y);
    else
      copy_rows(context, shape, product, y);
    return ok_status();
  };
  if (!gathers_) {
    const Buffer product = workspace_.with_stride(hidden);
    linear(context, weight, own, count, product);
    PAGODA_RETURN_IF_ERROR(sum_rows(context, {count, hidden}, product));
    return take(product);
  }
  CHECK(weight.k() == width);
  const std::int64_t most = padded(count * std::max(width, hidden));
  const Buffer whole = workspace_.at(0, most), product = workspace_.at(0, 2 * most).with_stride(weight.n());
  const auto own_width = columns[static_cast<std::size_t>(parallel_.rank())].count;
  PAGODA_RETURN_IF_ERROR(
      gather_parts(context, columns, input.with_stride(own_width), count, whole.with_stride(width)));
  linear(context, weight, LinearInput::rows(whole.with_stride(width)), count, product);
  PAGODA_RETURN_IF_ERROR(gather_parts(context, hidden_, product, count, whole.with_stride(hidden)));
  return take(whole.with_stride(hidden));
}

}  // namespace pagoda
