#pragma once
// RankCarrier: what brings the parts of a group's ranks together, each of which has a device: kernels through
// windows (rank_windows.h), or the device's own library (rank_library.h). Made before the ranks know of each
// other, and connected once all have one. The host does not wait within a step: a rank that is not there is
// told of at its end. Errors: the device's; a rank that is not there. Threads: the device's caller. Owner:
// DeviceModelRunner; lives as long as the device.
#include <cstdint>

#include "base/status.h"
#include "device/device_array.h"
#include "distributed/parallel_context.h"
#include "kernels/device/device_ops.h"

namespace pagoda::device_runner {

class RankCarrier {
 public:
  virtual ~RankCarrier() = default;
  RankCarrier(const RankCarrier&) = delete;
  // A collective call of all ranks.
  virtual Status connect() = 0;
  // For ops, once connected.
  const DeviceOps::Ranks& ranks() const { return ranks_; }
  // In front of a step's launches.
  virtual void begin() = 0;
  // Behind them: waits for them. deadline_exceeded: a rank did not come in time, and what the step computed
  // is worth nothing; unavailable: so, and a rank has said why.
  virtual Status check() = 0;
  virtual std::int64_t size_bytes() const = 0;

 protected:
  RankCarrier(device::Device& device, device::StreamId stream, const ParallelContext& parallel)
      : device_(device), stream_(stream), parallel_(parallel) {}
  // Puts the group's words, zeros, at `words`, which rows of `half` floats follow. unimplemented: too many
  // ranks.
  Status begin_group(std::byte* words, std::int64_t half);
  // Floats of half the room for exchanges, of which the widest has so many.
  static std::int64_t half_for(std::int64_t widest);

  static constexpr RankTimeout kConnectTimeout{60'000};  // ranks come here from loading
  device::Device& device_;
  device::StreamId stream_;
  ParallelContext parallel_;
  device::PinnedArray<std::uint32_t> words_;
  DeviceOps::Ranks ranks_;
};

}  // namespace pagoda::device_runner
