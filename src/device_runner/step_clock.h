#pragma once
// StepClock: when steps begin and end on the device, by its own clock: a kernel in front of a step's first
// notes the time, and one behind its last; those of a replayed step are part of its graph. What stands
// between the end of one step and the beginning of the next is time in which the device computes nothing: it
// waits for the host, copies results out and inputs in, and launches. Measuring adds two launches of one warp
// and a copy of 16 bytes to a step. On the emulated device it says nothing. Errors: the device's. Threads:
// the device's caller.
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

  // Puts a note of the time into the stream.
  Status note_begin() { return note(0); }
  // The same, and brings what was noted to the host. `slot`: 0 or 1, since a step may be put into the stream
  // before the one in front of it has been taken.
  Status note_end(std::size_t slot);

  // Behind each step, in their order, once the stream is done with it: seconds from the end of the step
  // before to its begin; none where one of the two noted no end.
  std::optional<double> take_idle(std::size_t slot);

 private:
  StepClock(device::Device& device, device::StreamId stream) : device_(&device), stream_(stream) {}
  Status note(std::size_t which);

  device::Device* device_;
  device::StreamId stream_;
  device::DeviceArray<std::uint64_t> there_;  // begin, end
  device::PinnedArray<std::uint64_t> here_;   // by slot
  std::array<bool, 2> ended_ = {};            // the step of the slot has noted its end
  std::optional<std::uint64_t> last_end_;
};

}  // namespace pagoda::device_runner
