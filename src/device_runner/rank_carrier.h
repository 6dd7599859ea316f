#pragma once
// RankCarrier: combines the parts of a group's ranks, each of which has a device: by kernels through windows
// (rank_windows.h), or by the device's own library (rank_library.h). Created before the ranks know each
// other, and connected once all ranks have one. The host does not wait within a step: a missing rank is
// reported at the end of the step. Errors: the device's; a missing rank. Threads: the device's caller. Owner:
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
  // Called before a step's launches.
  virtual void begin() = 0;
  // Called after a step's launches; waits for them. deadline_exceeded: a rank did not arrive in time, and the
  // results of the step are invalid; unavailable: likewise, and a rank has reported the reason.
  virtual Status check() = 0;
  virtual std::int64_t size_bytes() const = 0;

 protected:
  RankCarrier(device::Device& device, device::StreamId stream, const ParallelContext& parallel)
      : device_(device), stream_(stream), parallel_(parallel) {}
  // Puts the group's words, zeros, at `words`; rows of `half` floats follow. unimplemented: too many ranks.
  Status begin_group(std::byte* words, std::int64_t half);
  // Number of floats in half the space for exchanges, the widest of which has `widest` floats.
  static std::int64_t half_for(std::int64_t widest);

  static constexpr RankTimeout kConnectTimeout{60'000};  // ranks arrive here after loading
  device::Device& device_;
  device::StreamId stream_;
  ParallelContext parallel_;
  device::PinnedArray<std::uint32_t> words_;
  DeviceOps::Ranks ranks_;
};

}  // namespace pagoda::device_runner
