#include "device_runner/step_arena.h"

#include <algorithm>

namespace pagoda::device_runner {

Result<std::byte*> StepArena::put_bytes(const std::byte* values, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  constexpr std::size_t kAlignment = 256, kChunk = std::size_t{1} << 20;
  for (;;) {
    if (chunk_ == chunks_.size()) {
      const auto size = static_cast<std::int64_t>(std::max(kChunk, bytes));
      auto host = device::PinnedArray<std::byte>::create(*device_, size);
      if (!host) return host.error();
      auto there = device::DeviceArray<std::byte>::create(*device_, size, "inputs of a step");
      if (!there) return there.error();
      chunks_.push_back({*std::move(host), *std::move(there)});
    }
    if (used_ + bytes <= static_cast<std::size_t>(chunks_[chunk_].host.count())) break;
    ++chunk_;
    used_ = 0;
  }
  const Chunk& chunk = chunks_[chunk_];
  std::memcpy(chunk.host.bytes() + used_, values, bytes);
  std::byte* const to = chunk.there.bytes() + used_;
  PAGODA_RETURN_IF_ERROR(device_->copy_in(stream_, to, chunk.host.bytes() + used_, bytes));
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return to;
}

}  // namespace pagoda::device_runner
