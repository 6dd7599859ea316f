#pragma once
// AccessShadow: the last accesses to each four bytes, to find two threads that access the same bytes without
// an order, at least one of them writing. Within a launch, accesses are ordered by:
//     the same thread             its own order
//     threads of a warp           __syncwarp, shuffles and votes (warp_phase counts them)
//     threads of a block          __syncthreads (block_phase counts them)
//     blocks of a launch          nothing, except atomics of both
//     the caller's knowledge      barriers of copies, at which one arrived and for which the other waited
// Streams order launches (stream_queues.h). Only the last writer and the last atomic of a granule are
// remembered: some races are missed, but none is reported falsely. Threads: one. Source: the happens-before
// relation of FastTrack (PLDI'09), with CUDA's kinds of barrier.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace pagoda::device::emulated {

enum class AccessKind : std::uint8_t { read, write, atomic };

struct AccessStamp {
  std::uint32_t launch = 0;  // from 1 on; 0: no access
  std::uint32_t block = 0;
  std::uint32_t block_phase = 0, warp_phase = 0;
  std::uint16_t thread = 0;
  std::uint8_t bytes = 0;  // a bit per byte of the granule
  AccessKind kind = AccessKind::read;
  std::uint32_t clock = 0;  // the thread's clock in a cluster (cluster_copies.h)
};

class AccessShadow {
 public:
  explicit AccessShadow(std::size_t bytes);
  ~AccessShadow();
  AccessShadow(AccessShadow&& other) noexcept;
  AccessShadow& operator=(AccessShadow&& other) noexcept;

  // Records an access of `size` bytes from `offset` on, which must be within the bytes. Returns the access
  // with which it races, or nullopt. `known`: returns true if something else orders the two; may be empty.
  using IsKnown = std::function<bool(const AccessStamp& before)>;
  std::optional<AccessStamp> note(std::size_t offset, std::size_t size, AccessStamp now,
                                  const IsKnown& known = {});
  // Clears all records.
  void clear();

 private:
  // Readers of a granule that are not ordered among each other are remembered together.
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
