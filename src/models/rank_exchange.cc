#include "models/rank_exchange.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace pagoda {
namespace {

void add_vector(const float* vector, std::int64_t length, float* out) {
  for (std::int64_t i = 0; i < length; ++i) out[i] += vector[i];
}

}  // namespace

std::int64_t RankExchange::room_for(const TensorShard& shard, std::int64_t rows, std::int64_t width,
                                    std::int64_t hidden) {
  if (shard.size == 1) return 0;
  const std::int64_t most = padded(rows * std::max(width, hidden));
  return shard.exchange == ExchangeKind::sum ? padded(rows * hidden) : 3 * most;
}

RankExchange::RankExchange(const ParallelContext& parallel, const TensorShard& shard, float* room)
    : parallel_(parallel),
      split_(shard.size > 1),
      gathers_(split_ && shard.exchange == ExchangeKind::gather),
      hidden_(shard.hidden),
      room_(room) {}

Status RankExchange::sum(std::span<float> data) const {
  if (!split_) return ok_status();
  return parallel_.communicator->all_reduce_sum(data, parallel_.timeout);
}

Status RankExchange::gather(std::span<const std::size_t> sizes, float* all) const {
  const auto rank = static_cast<std::ptrdiff_t>(parallel_.rank());
  std::size_t first = 0;
  for (auto size = sizes.begin(); size != sizes.begin() + rank; ++size) first += *size;
  return parallel_.communicator->all_gather({all + first, sizes[static_cast<std::size_t>(rank)]}, sizes, all,
                                            parallel_.timeout);
}

// [count, own columns] of each rank -> [count, all columns]. The ranks' parts come one behind the other.
Status RankExchange::gather_rows(std::span<const Range> ranges, const float* own, std::int64_t count,
                                 float* all) {
  const auto rank = static_cast<std::size_t>(parallel_.rank());
  const std::int64_t width = ranges.back().end();
  float* const parts = count == 1 ? all : room_;  // one row is in order at once
  sizes_.clear();
  for (const Range& range : ranges) sizes_.push_back(static_cast<std::size_t>(range.count * count));
  std::memcpy(parts + ranges[rank].first * count, own, sizes_[rank] * sizeof(float));
  PAGODA_RETURN_IF_ERROR(gather(sizes_, parts));
  if (count == 1) return ok_status();
  const float* from = parts;
  for (const Range& range : ranges) {
    for (std::int64_t row = 0; row < count; ++row, from += range.count)
      std::memcpy(all + row * width + range.first, from,
                  static_cast<std::size_t>(range.count) * sizeof(float));
  }
  return ok_status();
}

Status RankExchange::add_product(const KernelContext& context, const PackedLinear& weight,
                                 std::span<const Range> columns, const float* input, std::int64_t count,
                                 float* y) {
  if (!split_) {
    linear(context, weight, LinearInput::rows(input, weight.k()), count, y, {.accumulate = true});
    return ok_status();
  }
  const std::int64_t width = columns.back().end(), hidden = hidden_.back().end();
  if (!gathers_) {
    linear(context, weight, LinearInput::rows(input, weight.k()), count, room_);
    PAGODA_RETURN_IF_ERROR(sum({room_, static_cast<std::size_t>(count * hidden)}));
    add_vector(room_, count * hidden, y);
    return ok_status();
  }
  CHECK(weight.k() == width);
  float* const whole = room_ + padded(count * std::max(width, hidden));
  float* const product = whole + padded(count * std::max(width, hidden));
  PAGODA_RETURN_IF_ERROR(gather_rows(columns, input, count, whole));
  linear(context, weight, LinearInput::rows(whole, width), count, product);
  PAGODA_RETURN_IF_ERROR(gather_rows(hidden_, product, count, whole));
  add_vector(whole, count * hidden, y);
  return ok_status();
}

}  // namespace pagoda
