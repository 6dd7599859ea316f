#pragma once
// Nccl: sums and gathers among GPUs by NVIDIA's library, which is opened on demand: the program is built and
// started without it. One communicator, of one rank. Not here: timeouts (device_runner/rank_library.h),
// memory and streams (cuda_device.h). Needs no NCCL headers. Tested against a fake library; not yet run on a
// GPU. Source: NCCL user guide, "Creating a Communicator", "Fault Tolerance", "Using NCCL with CUDA Graphs".
// Threads: one caller; any other thread may also call error() and abort(). Owner: the device.
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
  // Groups are connected when they are created (NCCL_RUNTIME_CONNECT=0). unavailable: no library with one of
  // these names exists, or it lacks some of the calls, or it is older than 2.13. `names`: for tests; the
  // default is the system's libnccl.so.2.
  static Result<std::unique_ptr<Nccl>> open(std::span<const char* const> names = {});
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // One line with the library that would be used, or why there is none. Needs no GPU.
  static std::string describe(std::span<const char* const> names = {});

  Result<GroupName> name_group() const;
  // As Collectives::join_group(). The library's call has no deadline: it runs on a separate thread, which is
  // abandoned when the time is over. `enter`: called first on that thread.
  Status join(const GroupName& name, std::int32_t rank, std::int32_t size, std::chrono::milliseconds timeout,
              std::function<void()> enter);

  // Enqueue on `stream`, a cudaStream_t. internal: names the call and its result.
  Status all_reduce(void* stream, float* data, std::int64_t count);
  Status all_gather(void* stream, const float* own, float* all, std::int64_t count);

  Status error();
  // The first reason is kept. May block until graphs that hold calls of the group are destroyed.
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
  std::timed_mutex call_;                     // held during a call of the communicator
  mutable std::mutex reason_;
  Status why_;
};

}  // namespace pagoda::device
