// Adapters' addends of products (kernels/low_rank.h) on a device: two kernels after each product of a matrix
// for which any row has factors.
#include <algorithm>

#include "kernels/device/device_adapters.h"
#include "kernels/device/ops.h"
#include "kernels/linear_storage.h"

namespace pagoda {

DeviceOps::AdaptedRows DeviceOps::show_adapters(RowAdapters adapters, std::int64_t num_rows) {
  CHECK(adapters_ != nullptr);
  const std::span<const AdapterFactors* const> own(adapters, static_cast<std::size_t>(num_rows));
  for (const auto& [of_rows, shown] : shown_adapters_)
    if (std::ranges::equal(of_rows, own)) return shown;
  std::vector<device::LowRankRow> rows;
  for (std::size_t row = 0; row < own.size(); ++row)
    if (own[row] != nullptr)
      rows.push_back({.factors = adapters_->of(*own[row]), .row = static_cast<std::int64_t>(row)});
  const AdaptedRows shown = {
      .rows = there(rows), .count = std::ssize(rows), .most_ranks = adapters_->most_ranks()};
  shown_adapters_.emplace_back(std::vector(own.begin(), own.end()), shown);
  return shown;
}

namespace device_ops {

AdapterAddends::AdapterAddends(DeviceOps& ops, const PackedLinear::Storage& weight, const LinearInput& input,
                               std::int64_t num_rows)
    : ops_(ops) {
  if (!any_adapter(input.adapters, num_rows, {weight.adapter_slot})) return;
  are_there_ = true;
  const DeviceOps::AdaptedRows rows = ops.show_adapters(input.adapters, num_rows);
  const float* const x = input_rows(ops, input, num_rows, weight.k);
  float* const u = ops.scratch(DeviceOps::Scratch::low_rank, rows.count * rows.most_ranks);
  if (rows.rows == nullptr || x == nullptr || u == nullptr) return;  // ops has the error
  count_ = rows.count;
  args_ = {.rows = rows.rows,
           .x = {.data = const_cast<float*>(x), .stride = weight.k},
           .u = u,
           .slot = weight.adapter_slot,
           .k = i32(weight.k),
           .outputs = i32(weight.num_rows()),
           .most_ranks = rows.most_ranks};
  ops.keep(ops.layers().low_rank_dots(args_, count_));
}

void AdapterAddends::add_to(float* y, std::int64_t stride) {
  if (count_ == 0) return;
  args_.y = {.data = y, .stride = stride};
  ops_.keep(ops_.layers().low_rank_sums(args_, count_));
}

}  // namespace device_ops

}  // namespace pagoda
