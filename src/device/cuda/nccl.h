#pragma once
// Nccl: sums and gathers among GPUs by NVIDIA's library, which is opened when it is asked for: the program is
// built and started without it. One communicator, of one rank. Not here: who waits for how long
// (device_runner/rank_library.h), memory and streams (cuda_device.h). Needs no header of NCCL's.
// Held against a fake library in its test; no GPU has run it.
// Source: NCCL user guide, "Creating a Communicator", "Fault Tolerance", "Using NCCL with CUDA Graphs".
// Threads: one caller; error() and abort() by any other, too. Owner: the device.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "device/collectives.h"

namespace pagoda::device {

class Nccl {
 public:
  // Groups are connected when they are made (NCCL_RUNTIME_CONNECT=0).
  // unavailable: no library of these names is there, one that has not all of the calls, or one older than
  // 2.13. `names`: for tests; what is opened otherwise is the system's libnccl.so.2.
  static Result<std::unique_ptr<Nccl>> open(std::span<const char* const> names = {});
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // Which library would be used, in one line; or why none. Needs no GPU.
  static std::string describe(std::span<const char* const> names = {});

  Result<GroupName> name_group() const;
  // As Collectives::join_group(). The library's call has no deadline: it runs on a thread of its own, which
  // is left behind where the time is over. `enter`: what that thread does first.
  Status join(const GroupName& name, std::int32_t rank, std::int32_t size, std::chrono::milliseconds timeout,
              std::function<void()> enter);

  // Enqueue into `stream`, a cudaStream_t. internal: names the call and what it answered.
  Status all_reduce(void* stream, float* data, std::int64_t count);
  Status all_gather(void* stream, const float* own, float* all, std::int64_t count);

  Status error();
  // The first reason stays. May take as long as graphs live that hold calls of the group.
  void abort(const Status& why);

 private:
  struct Library;

  Nccl() = default;
  static Result<std::unique_ptr<Library>> look_up(std::span<const char* const> names);
  Status check(int result, const char* call, void* communicator) const;
  Status aborted() const;
  template <class Call>
  Status enqueue(const char* name, const Call& call);

  std::unique_ptr<Library> library_;
  std::atomic<void*> communicator_{nullptr};  // null: not joined, or aborted
  std::timed_mutex call_;                     // while a call of the communicator is under way
  mutable std::mutex reason_;
  Status why_;
};

}  // namespace pagoda::device
