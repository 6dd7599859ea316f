#pragma once
// Collectives: sums and gathers among the devices of a group by the device's own library (NCCL). Used instead
// of windows (peer_windows.h) where GPUs cannot access each other's memory, or where the library is faster.
// The order of additions is up to the library. One rank creates the group's name and sends it to the others.
// All ranks join, then make the same calls in the same order. A device is in at most one group, until it
// ends. Errors: unavailable: there is no library, or the group has lost a rank; the library's errors, by
// name. Threads: the device's caller; any other thread may also call group_error(), exchanges_done() and
// leave_group().
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace pagoda::device {

enum class StreamId : std::int32_t;

// Plain bytes that can be sent to another process.
struct GroupName {
  std::array<std::byte, 128> bytes = {};
};

class Collectives {
 public:
  virtual ~Collectives() = default;
  // Must be called before all others. unavailable: there is no library; the message names it.
  virtual Status open_collectives() = 0;
  virtual Result<GroupName> name_group() = 0;
  // Waits for all ranks. deadline_exceeded: not all ranks joined in time; the device cannot join a group
  // afterwards.
  virtual Status join_group(const GroupName& name, std::int32_t rank, std::int32_t size,
                            std::chrono::milliseconds timeout) = 0;

  // These two are enqueued on the stream and may be captured. data = its sum over all ranks.
  virtual Status sum_over_group(StreamId stream, float* data, std::int64_t count) = 0;
  // all = `count` floats from each rank, in rank order.
  virtual Status gather_of_group(StreamId stream, const float* own, float* all, std::int64_t count) = 0;

  // Number of exchanges that have completed, modulo 2^32, counted from an arbitrary start. An exchange that
  // waits for another rank does not count.
  virtual std::uint32_t exchanges_done() const = 0;
  // The error that the library has reported for the group in the meantime.
  virtual Status group_error() = 0;
  // Calls that wait for other ranks return without a result, and all later calls fail with `why`. Other ranks
  // are not notified.
  virtual void leave_group(const Status& why) = 0;
};

}  // namespace pagoda::device
