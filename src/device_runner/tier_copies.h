#pragma once
// TierCopies: copies rows between the pages of a device's KV cache and host memory for a TierEngine
// (model_runner/tier_engine.h), concurrently with steps. Each copy goes through a buffer of pinned memory in
// its own stream, and is complete when its call returns. The engine decides which rows may be copied at which
// time; the KV manager ensures that a step neither writes a row that leaves nor touches one that arrives.
// Errors: false; the device has the error, and so does the next step. Threads: any, several at once; pause()
// by the runner's. Owner: the runner. The device must outlive it.
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>

#include "device/device_array.h"
#include "request/ids.h"

namespace pagoda::device_runner {

class TierCopies {
 public:
  // `page`: returns the address of a page in device memory; used from now on. Rows have at most this many
  // pages; a buffer holds them all, if they are not too many.
  using Address = std::function<std::byte*(BlockId)>;
  static Result<std::unique_ptr<TierCopies>> create(device::Device& device, std::size_t page_bytes,
                                                    std::int32_t most_pages, Address page);

  [[nodiscard]] bool read(std::span<const BlockId> pages, std::span<std::byte> to);
  [[nodiscard]] bool write(std::span<const BlockId> pages, std::span<const std::byte> from);

  // While a Pause exists, no copy is in flight.
  using Pause = std::unique_lock<std::shared_mutex>;
  [[nodiscard]] Pause pause() { return Pause(running_); }

 private:
  struct Lane {
    device::StreamId stream{};
    device::PinnedArray<std::byte> room;
    bool taken = false;
  };
  class Taken;

  TierCopies(device::Device& device, std::size_t page_bytes, Address page)
      : device_(&device), page_bytes_(page_bytes), page_(std::move(page)) {}
  // Calls copy(lane, pages of a buffer, their first byte) until all pages are done.
  template <class Copy>
  bool copy(std::span<const BlockId> pages, const Copy& some);

  // One lane copies between device and buffer while the other copies between buffer and tier.
  static constexpr std::size_t kLanes = 2;
  device::Device* device_;
  const std::size_t page_bytes_;
  const Address page_;
  std::size_t room_pages_ = 1;
  std::shared_mutex running_;
  std::mutex mutex_;
  std::condition_variable left_;
  std::array<Lane, kLanes> lanes_;
};

}  // namespace pagoda::device_runner
