#pragma once
// AccessShadow: who touched which four bytes last, to find two threads that touch the same bytes, one of them
// writing, with nothing between them that orders the two. What orders accesses of one launch:
//     the same thread             its own order
//     threads of a warp           __syncwarp, shuffles and votes (warp_phase counts them)
//     threads of a block          __syncthreads (block_phase counts them)
//     blocks of a launch          nothing: only atomics of both
//     what the caller knows       barriers of copies, at which the one arrived and for which the other waited
// Streams order launches (stream_queues.h). The last writer of a granule alone is remembered, and the last
// atomic: some races go unseen, and none is seen that is not there. Threads: one. Source: the happens-before
// of FastTrack (PLDI'09), with CUDA's kinds of barrier.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace pagoda::device::emulated {

enum class AccessKind : std::uint8_t { read, write, atomic };

struct AccessStamp {
  std::uint32_t launch = 0;  // from 1 on; 0: nobody
  std::uint32_t block = 0;
  std::uint32_t block_phase = 0, warp_phase = 0;
  std::uint16_t thread = 0;
  std::uint8_t bytes = 0;  // a bit for each of the granule
  AccessKind kind = AccessKind::read;
  std::uint32_t clock = 0;  // the thread's in a cluster (cluster_copies.h)
};

class AccessShadow {
 public:
  explicit AccessShadow(std::size_t bytes);
  ~AccessShadow();
  AccessShadow(AccessShadow&& other) noexcept;
  AccessShadow& operator=(AccessShadow&& other) noexcept;

  // Notes the access of `size` bytes from `offset` on. Gives the access it races with, if there is one.
  // offset + size lies within the bytes. `known`: whether something else orders the two; or empty.
  using IsKnown = std::function<bool(const AccessStamp& before)>;
  std::optional<AccessStamp> note(std::size_t offset, std::size_t size, AccessStamp now,
                                  const IsKnown& known = {});
  // Forgets everything.
  void clear();

 private:
  // Readers of a granule that nothing orders among each other are remembered together.
  enum class Readers : std::uint8_t { one, of_warp, of_block, of_launch };
  struct Granule {
    AccessStamp write, read;
    Readers readers = Readers::one;
  };
  static std::optional<AccessStamp> note(Granule& granule, const AccessStamp& now);
  static bool readers_before(const Granule& granule, const AccessStamp& now);

  Granule* granules_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace pagoda::device::emulated
