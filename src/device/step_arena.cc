#include "device/step_arena.h"

#include <algorithm>

namespace pagoda::device {

Status StepArena::add_chunk(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  auto host = PinnedArray<std::byte>::create(*device_, size);
  if (!host) return host.error();
  auto there = DeviceArray<std::byte>::create(*device_, size, "inputs of a step");
  if (!there) return there.error();
  chunks_.push_back({*std::move(host), *std::move(there)});
  return ok_status();
}

Status StepArena::reserve(std::size_t bytes) { return bytes > 0 ? add_chunk(bytes) : ok_status(); }

std::int64_t StepArena::size_bytes() const {
  std::int64_t bytes = 0;
  for (const Chunk& chunk : chunks_) bytes += chunk.there.size_bytes();
  return bytes;
}

Result<std::byte*> StepArena::put_bytes(const std::byte* values, std::size_t bytes, std::size_t capacity) {
  if (bytes == 0) return nullptr;
  const std::size_t room = std::max(bytes, capacity);
  constexpr std::size_t kAlignment = 256, kChunk = std::size_t{1} << 20;
  for (;;) {
    if (chunk_ == chunks_.size()) PAGODA_RETURN_IF_ERROR(add_chunk(std::max(kChunk, room)));
    if (used_ + room <= static_cast<std::size_t>(chunks_[chunk_].host.count())) break;
    ++chunk_;
    used_ = 0;
  }
  const Chunk& chunk = chunks_[chunk_];
  std::memcpy(chunk.host.bytes() + used_, values, bytes);
  std::byte* const to = chunk.there.bytes() + used_;
  PAGODA_RETURN_IF_ERROR(device_->copy_in(stream_, to, chunk.host.bytes() + used_, bytes));
  used_ += (room + kAlignment - 1) / kAlignment * kAlignment;
  return to;
}

}  // namespace pagoda::device
