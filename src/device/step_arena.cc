#include "device/step_arena.h"

#include <algorithm>
#include <utility>

namespace pagoda::device {
namespace {

// A copy costs as much as copying a gap of this many bytes.
constexpr std::size_t kMostGap = 16 * 1024;

}  // namespace

Status StepArena::add_chunk(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  Chunk chunk;
  for (PinnedArray<std::byte>& side : chunk.host) {
    auto host = PinnedArray<std::byte>::create(*device_, size);
    if (!host) return host.error();
    side = *std::move(host);
  }
  auto there = DeviceArray<std::byte>::create(*device_, size, "inputs of a step");
  if (!there) return there.error();
  chunk.there = *std::move(there);
  chunks_.push_back(std::move(chunk));
  return ok_status();
}

Status StepArena::reserve(std::size_t bytes) { return bytes > 0 ? add_chunk(bytes) : ok_status(); }

std::int64_t StepArena::size_bytes() const {
  std::int64_t bytes = 0;
  for (const Chunk& chunk : chunks_) bytes += chunk.there.size_bytes();
  return bytes;
}

// The bytes between two arrays of a step are unused.
Status StepArena::copy_held() {
  if (held_end_ == held_) return ok_status();
  const Chunk& chunk = chunks_[chunk_];
  const std::size_t begin = std::exchange(held_, 0), end = std::exchange(held_end_, 0);
  return device_->copy_in(stream_, chunk.there.bytes() + begin, chunk.host[side_].bytes() + begin,
                          end - begin);
}

Status StepArena::send() {
  holds_ = false;
  return copy_held();
}

Result<std::byte*> StepArena::put_bytes(const std::byte* values, std::size_t bytes, std::size_t capacity) {
  if (bytes == 0) return nullptr;
  const std::size_t room = std::max(bytes, capacity);
  constexpr std::size_t kAlignment = 256, kChunk = std::size_t{1} << 20;
  for (;;) {
    if (chunk_ == chunks_.size()) PAGODA_RETURN_IF_ERROR(add_chunk(std::max(kChunk, room)));
    if (used_ + room <= static_cast<std::size_t>(chunks_[chunk_].there.count())) break;
    PAGODA_RETURN_IF_ERROR(copy_held());
    ++chunk_;
    used_ = 0;
  }
  const Chunk& chunk = chunks_[chunk_];
  std::byte* const from = chunk.host[side_].bytes() + used_;
  std::memcpy(from, values, bytes);
  std::byte* const to = chunk.there.bytes() + used_;
  if (holds_) {
    if (held_end_ > held_ && used_ - held_end_ > kMostGap) PAGODA_RETURN_IF_ERROR(copy_held());
    if (held_end_ == held_) held_ = used_;
    held_end_ = used_ + bytes;
  } else {
    PAGODA_RETURN_IF_ERROR(device_->copy_in(stream_, to, from, bytes));
  }
  used_ += (room + kAlignment - 1) / kAlignment * kAlignment;
  return to;
}

}  // namespace pagoda::device
