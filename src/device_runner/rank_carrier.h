#pragma once
// RankCarrier: what brings the parts of a group's ranks together, each of which has a device: kernels through
// windows (rank_windows.h), or the device's own library (rank_library.h). Made before the ranks know of each
// other, and connected once all have one. The host does not wait within a step: a rank that is not there is
// told of at its end. Errors: the device's; a rank that is not there. Threads: the device's caller. Owner:
// DeviceModelRunner; lives as long as the device.
#include <cstdint>

#include "base/status.h"
#include "kernels/device/device_ops.h"

namespace pagoda::device_runner {

class RankCarrier {
 public:
  virtual ~RankCarrier() = default;
  // A collective call of all ranks.
  virtual Status connect() = 0;
  // For ops, once connected.
  virtual const DeviceOps::Ranks& ranks() const = 0;
  // In front of a step's launches.
  virtual void begin() = 0;
  // Behind them: waits for them. deadline_exceeded: a rank did not come in time, and what the step computed
  // is worth nothing; unavailable: so, and a rank has said why.
  virtual Status check() = 0;
  virtual std::int64_t size_bytes() const = 0;
};

}  // namespace pagoda::device_runner
