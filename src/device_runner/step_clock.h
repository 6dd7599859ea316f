#pragma once
// StepClock: the beginning and end of steps by the device's own clock: a kernel before a step's first kernel
// records the time, and so does one after its last; those of a replayed step are part of its graph. Between
// the end of one step and the beginning of the next, the device computes nothing: it waits for the host,
// copies results out and inputs in, and launches. Measuring adds two launches of one warp and a copy of 16
// bytes to a step. On the emulated device the times are meaningless. Errors: the device's. Threads: the
// device's caller.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "device/device_array.h"

namespace pagoda::device_runner {

class StepClock {
 public:
  // Borrows the device.
  static Result<std::unique_ptr<StepClock>> create(device::Device& device, device::StreamId stream);

  // Enqueues a record of the time.
  Status note_begin() { return note(0); }
  // Likewise, and copies the recorded times to the host. `slot`: 0 or 1, since a step may be enqueued before
  // the times of the previous one have been taken.
  Status note_end(std::size_t slot);

  // Called after each step, in order, once the stream has completed it: seconds from the end of the previous
  // step to the beginning of this one; nullopt if one of the two recorded no end.
  std::optional<double> take_idle(std::size_t slot);

 private:
  StepClock(device::Device& device, device::StreamId stream) : device_(&device), stream_(stream) {}
  Status note(std::size_t which);

  device::Device* device_;
  device::StreamId stream_;
  device::DeviceArray<std::uint64_t> there_;  // begin, end
  device::PinnedArray<std::uint64_t> here_;   // by slot
  std::array<bool, 2> ended_ = {};            // the slot's step has recorded its end
  std::optional<std::uint64_t> last_end_;
};

}  // namespace pagoda::device_runner
