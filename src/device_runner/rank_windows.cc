#include "device_runner/rank_windows.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "base/strings.h"

namespace pagoda::device_runner {

Result<std::unique_ptr<RankWindows>> RankWindows::create(device::Device& device, device::StreamId stream,
                                                         const ParallelContext& parallel,
                                                         std::int64_t widest) {
  std::unique_ptr<RankWindows> windows(new RankWindows(device, stream, parallel));
  const std::int64_t half = half_for(widest);
  windows->bytes_ = (device::kWordsOfWindow + 2 * half) * static_cast<std::int64_t>(sizeof(float));
  auto own = device.create_window(static_cast<std::size_t>(windows->bytes_));
  if (!own) return own.error();
  windows->own_ = *own;
  PAGODA_RETURN_IF_ERROR(windows->begin_group(own->memory, half));
  windows->ranks_.patience = static_cast<std::uint64_t>(std::chrono::nanoseconds(parallel.timeout).count());
  return windows;
}

Status RankWindows::connect() {
  const auto size = static_cast<std::size_t>(parallel_.size());
  constexpr std::size_t kHandle = sizeof(device::WindowHandle);
  const std::vector<std::size_t> sizes(size, kHandle);
  std::vector<std::byte> all(size * kHandle);
  Communicator& ranks = *parallel_.communicator;
  PAGODA_RETURN_IF_ERROR(ranks.gather(own_.handle.bytes, sizes, all.data(), kConnectTimeout));
  PAGODA_RETURN_IF_ERROR(ranks.broadcast(all, size * kHandle, kConnectTimeout));
  if (all.size() != size * kHandle) return corrupt_data("rank 0 runs another version of this program");
  for (std::size_t rank = 0; rank < size; ++rank) {
    device::WindowHandle handle;
    std::memcpy(handle.bytes.data(), all.data() + rank * kHandle, kHandle);
    Result<std::byte*> memory = own_.memory;
    if (std::cmp_not_equal(rank, parallel_.rank())) memory = device_.open_window(handle);
    if (!memory) return memory.error().annotate(concat("rank ", rank, "'s window"));
    ranks_.group.words[rank] = reinterpret_cast<device::WindowWords*>(*memory);
  }
  return ok_status();
}

Status RankWindows::check() {
  constexpr std::size_t kLost = offsetof(device::WindowWords, lost);
  PAGODA_RETURN_IF_ERROR(
      device_.copy_out(stream_, words_.bytes(), own_.memory + kLost, sizeof(std::uint32_t)));
  PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
  const std::uint32_t lost = words_.data()[0];
  if (lost == 0) return ok_status();
  PAGODA_RETURN_IF_ERROR(parallel_.communicator->aborted());  // includes the reason, if known
  return {StatusCode::deadline_exceeded,
          concat("rank ", lost - 1, " did not deliver its part within ", parallel_.timeout.count(), " ms")};
}

}  // namespace pagoda::device_runner
