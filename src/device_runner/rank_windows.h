#pragma once
// RankWindows: the windows through which the kernels of a group's ranks exchange parts of rows
// (device/kernels/rank_args.h): this rank's own, and those of the others, each on a device of its own. Ranks
// are processes of one machine, or threads. Made before the ranks know of each other, and connected once all
// have one. Errors: the device's; a rank that is not there. Threads: the device's caller. Owner:
// DeviceModelRunner; lives as long as the device.
#include <memory>

#include "device/device_array.h"
#include "distributed/parallel_context.h"
#include "kernels/device/device_ops.h"

namespace pagoda::device_runner {

class RankWindows {
 public:
  // `widest`: floats of the widest part of a row that is ever brought. A window has room for many such.
  static Result<std::unique_ptr<RankWindows>> create(device::Device& device, device::StreamId stream,
                                                     const ParallelContext& parallel, std::int64_t widest);

  // A collective call of all ranks: opens the others' windows.
  Status connect();
  // For ops, once connected.
  const DeviceOps::Ranks& ranks() const { return ranks_; }
  // Behind a step's launches: waits for them. deadline_exceeded: a rank did not come in time, and what the
  // step computed is worth nothing; unavailable: so, and a rank has said why.
  Status check();
  std::int64_t size_bytes() const { return bytes_; }

 private:
  RankWindows(device::Device& device, device::StreamId stream, const ParallelContext& parallel)
      : device_(device), stream_(stream), parallel_(parallel) {}

  device::Device& device_;
  device::StreamId stream_;
  ParallelContext parallel_;
  device::Window own_;
  std::int64_t bytes_ = 0;
  device::PinnedArray<std::uint32_t> words_;
  DeviceOps::Ranks ranks_;
};

}  // namespace pagoda::device_runner
