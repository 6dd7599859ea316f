#pragma once
// WeightUpload: copies weights to a device while a model is loaded. Rows are converted to the device's form
// (stored_rows.h) on all threads, in one of two pinned stages, while the other one is copied. finish() frees
// everything.
//
//     stage 0   | form | copy         | form | copy
//     stage 1          | form | copy         | form | ...
//
// Invariant: a stage is written only when its copy has run; copies are in stream order, so that later work in
// the stream sees them. Bytes do not depend on the number of threads. Threads: the device's caller.
#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "base/thread_pool.h"
#include "device/device_array.h"
#include "device/kernel_launches.h"
#include "tensor/tensor_view.h"

namespace pagoda {

class WeightUpload {
 public:
  static constexpr std::int64_t kStage = std::int64_t{8} << 20;  // bytes copied at once

  // Borrows both; `pool` may be null.
  WeightUpload(device::Device& device, device::StreamId stream, ThreadPool* pool, std::int64_t stage = kStage)
      : device_(device), stream_(stream), pool_(pool), stage_bytes_(stage) {}
  ~WeightUpload() { (void)finish().ok(); }  // a lost device copies nothing
  WeightUpload(const WeightUpload&) = delete;
  WeightUpload& operator=(const WeightUpload&) = delete;

  // `values` may be freed when this returns.
  Status send(std::byte* to, std::span<const std::byte> values);
  // The rows of these matrices, stacked.
  Status send_rows(std::span<const TensorView> views, device::Element element, std::byte* to);
  // Waits for all copies, and frees the stages.
  Status finish();

 private:
  // `fill` writes bytes [first, first + count) of `bytes` to a stage; pieces are multiples of `unit`.
  Status send_filled(
      std::byte* to, std::int64_t bytes, std::int64_t unit,
      const std::function<void(std::int64_t first, std::int64_t count, std::byte* stage)>& fill);
  void on_threads(std::int64_t tiles, const std::function<void(std::int64_t tile)>& body) const;

  device::Device& device_;
  const device::StreamId stream_;
  ThreadPool* const pool_;
  const std::int64_t stage_bytes_;
  std::array<device::PinnedArray<std::byte>, 2> stages_;
  std::size_t next_ = 0;  // the stage to be written next
  bool copying_ = false;  // the other stage may still be in use by a copy
};

}  // namespace pagoda
