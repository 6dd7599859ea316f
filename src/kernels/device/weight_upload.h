#pragma once
// WeightUpload: brings weights to a device while a model is loaded. Rows get the device's form
// (stored_rows.h) on all threads, in one of two pinned stages, while the other one is being copied. Nothing
// of it stays after finish().
//
//     stage 0   | form | copy         | form | copy
//     stage 1          | form | copy         | form | ...
//
// Invariant: a stage is written only when its copy has run; copies are in the stream's order, so that what
// follows there sees them. Bytes do not depend on the threads. Threads: the device's caller.
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
  static constexpr std::int64_t kStage = std::int64_t{8} << 20;  // bytes that are copied at once

  // Borrows both; `pool` may be null.
  WeightUpload(device::Device& device, device::StreamId stream, ThreadPool* pool, std::int64_t stage = kStage)
      : device_(device), stream_(stream), pool_(pool), stage_bytes_(stage) {}
  ~WeightUpload() { (void)finish().ok(); }  // a lost device copies nothing
  WeightUpload(const WeightUpload&) = delete;
  WeightUpload& operator=(const WeightUpload&) = delete;

  // Its memory may go when this returns.
  Status send(std::byte* to, std::span<const std::byte> values);
  // The rows of these matrices one below the other.
  Status send_rows(std::span<const TensorView> views, device::Element element, std::byte* to);
  // Waits until all is there, and gives the stages back.
  Status finish();

 private:
  // `fill` writes bytes [first, first + count) of `bytes` to a stage; pieces are whole multiples of `unit`.
  Status send_filled(
      std::byte* to, std::int64_t bytes, std::int64_t unit,
      const std::function<void(std::int64_t first, std::int64_t count, std::byte* stage)>& fill);
  void on_threads(std::int64_t tiles, const std::function<void(std::int64_t tile)>& body) const;

  device::Device& device_;
  const device::StreamId stream_;
  ThreadPool* const pool_;
  const std::int64_t stage_bytes_;
  std::array<device::PinnedArray<std::byte>, 2> stages_;
  std::size_t next_ = 0;  // the stage that is written next
  bool copying_ = false;  // perhaps out of the other one
};

}  // namespace pagoda
