#pragma once
// Collectives: sums and gathers among the devices of a group by the device's own library (NCCL), for those
// who do without windows (peer_windows.h): where GPUs do not reach each other's memory, or the library is
// faster. In which order it adds is its own business. One rank names the group and tells the others; all join
// it, and then make the same calls in the same order. A device is in one group at most, until it ends.
// Errors: unavailable: there is no library, or the group has lost a rank; the library's, by name. Threads:
// the device's caller; group_error(), exchanges_done() and leave_group() by any other, too.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace pagoda::device {

enum class StreamId : std::int32_t;

// Plain bytes, to be sent to another process.
struct GroupName {
  std::array<std::byte, 128> bytes = {};
};

class Collectives {
 public:
  virtual ~Collectives() = default;
  // Comes before all others. unavailable: there is no library; says which.
  virtual Status open_collectives() = 0;
  virtual Result<GroupName> name_group() = 0;
  // Waits for all ranks. deadline_exceeded: not all of them came; the device joins no other group then.
  virtual Status join_group(const GroupName& name, std::int32_t rank, std::int32_t size,
                            std::chrono::milliseconds timeout) = 0;

  // These two are put into the stream, and may be captured. data = its sum over all ranks.
  virtual Status sum_over_group(StreamId stream, float* data, std::int64_t count) = 0;
  // all = `count` floats of each rank, in the order of ranks.
  virtual Status gather_of_group(StreamId stream, const float* own, float* all, std::int64_t count) = 0;

  // How many of them have run, modulo 2^32, from any number on: one that waits for another rank has not.
  virtual std::uint32_t exchanges_done() const = 0;
  // The error that the library reports of the group meanwhile.
  virtual Status group_error() = 0;
  // Calls that wait for other ranks end without a result, and `why` is the error of all later ones. Other
  // ranks notice nothing.
  virtual void leave_group(const Status& why) = 0;
};

}  // namespace pagoda::device
