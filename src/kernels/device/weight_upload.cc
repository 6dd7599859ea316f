#include "kernels/device/weight_upload.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/device/stored_rows.h"

namespace pagoda {
namespace {

constexpr std::int64_t kTile = 64 << 10;  // bytes that a thread converts at once

}  // namespace

void WeightUpload::on_threads(std::int64_t tiles, const std::function<void(std::int64_t)>& body) const {
  if (pool_ != nullptr && tiles > 1)
    return pool_->parallel_for(tiles, [&](std::int64_t tile, int) { body(tile); });
  for (std::int64_t tile = 0; tile < tiles; ++tile) body(tile);
}

Status WeightUpload::finish() {
  const bool copying = std::exchange(copying_, false);
  const Status status = copying ? device_.synchronize(stream_) : ok_status();
  stages_ = {};
  return status;
}

Status WeightUpload::send_filled(std::byte* to, std::int64_t bytes, std::int64_t unit,
                                 const std::function<void(std::int64_t, std::int64_t, std::byte*)>& fill) {
  CHECK(unit > 0 && unit <= stage_bytes_ && bytes % unit == 0);
  const std::int64_t most = stage_bytes_ / unit * unit;
  for (std::int64_t first = 0; first < bytes; first += most) {
    device::PinnedArray<std::byte>& stage = stages_[next_];
    if (stage.count() == 0) {
      auto made = device::PinnedArray<std::byte>::create(device_, stage_bytes_);
      if (!made) return made.error();
      stage = *std::move(made);
    }
    const std::int64_t count = std::min(most, bytes - first);
    fill(first, count, stage.bytes());
    // The other stage was copied in the meantime, and is written next.
    if (copying_) PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
    copying_ = true;
    PAGODA_RETURN_IF_ERROR(
        device_.copy_in(stream_, to + first, stage.bytes(), static_cast<std::size_t>(count)));
    next_ = 1 - next_;
  }
  return ok_status();
}

Status WeightUpload::send(std::byte* to, std::span<const std::byte> values) {
  return send_filled(
      to, std::ssize(values), 1, [&](std::int64_t first, std::int64_t count, std::byte* stage) {
        on_threads((count + kTile - 1) / kTile, [&](std::int64_t tile) {
          const std::int64_t from = tile * kTile, size = std::min(kTile, count - from);
          std::memcpy(stage + from, values.data() + first + from, static_cast<std::size_t>(size));
        });
      });
}

Status WeightUpload::send_rows(std::span<const TensorView> views, device::Element element, std::byte* to) {
  const std::int64_t row_bytes = device::KernelLaunches::row_bytes(element, views.front().columns());
  std::vector<std::int64_t> ends;  // each matrix's end in the stacked rows
  for (const TensorView& view : views) ends.push_back(view.rows() + (ends.empty() ? 0 : ends.back()));
  const auto write = [&](std::int64_t row, std::byte* out) {
    const auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends, row) - ends.begin());
    write_row(element, views[at], row - (ends[at] - views[at].rows()), out);
  };
  if (row_bytes > stage_bytes_) {
    std::vector<std::byte> whole(static_cast<std::size_t>(row_bytes));
    for (std::int64_t row = 0; row < ends.back(); ++row) {
      write(row, whole.data());
      PAGODA_RETURN_IF_ERROR(send(to + row * row_bytes, whole));
    }
    return ok_status();
  }
  const std::int64_t in_tile = std::max<std::int64_t>(1, kTile / row_bytes);
  const auto fill = [&](std::int64_t first, std::int64_t count, std::byte* stage) {
    const std::int64_t first_row = first / row_bytes, rows = count / row_bytes;
    on_threads((rows + in_tile - 1) / in_tile, [&](std::int64_t tile) {
      for (std::int64_t row = tile * in_tile; row < std::min(rows, (tile + 1) * in_tile); ++row)
        write(first_row + row, stage + row * row_bytes);
    });
  };
  return send_filled(to, ends.back() * row_bytes, row_bytes, fill);
}

}  // namespace pagoda
