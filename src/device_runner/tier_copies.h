#pragma once
// TierCopies: copies rows between the pages of a device's KV cache and the host's memory for a TierEngine
// (model_runner/tier_engine.h), beside the steps: each copy goes through a room of pinned memory in a stream
// of its own, and is done when its call returns. Which rows may be copied when is the engine's business; that
// a step neither writes a row that leaves nor touches one that arrives is the KV manager's.
// Errors: false; the device has the error, and so the next step. Threads: any, several at once; pause() by
// the runner's. Owner: the runner. The device outlives it.
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
  // `page`: the address of a page in the device's memory, from now on. Rows have so many pages at most; a
  // room has them all, if they are not too many.
  using Address = std::function<std::byte*(BlockId)>;
  static Result<std::unique_ptr<TierCopies>> create(device::Device& device, std::size_t page_bytes,
                                                    std::int32_t most_pages, Address page);

  [[nodiscard]] bool read(std::span<const BlockId> pages, std::span<std::byte> to);
  [[nodiscard]] bool write(std::span<const BlockId> pages, std::span<const std::byte> from);

  // While it lives no copy is under way.
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
  // Calls copy(lane, pages of a room, first byte of them) until all pages are done.
  template <class Copy>
  bool copy(std::span<const BlockId> pages, const Copy& some);

  // One copies between device and room while the other copies between room and tier.
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
