#pragma once
// EmulatedDevice: a Device in software, stricter than hardware, which tests kernels and a runner's order of
// work without a GPU. It runs the kernel sources (kernels/), compiled for the host, and finds
//   * host accesses to device memory (SIGSEGV: it is mapped only while kernels and copies run),
//   * reads of unwritten memory (NaN), accesses outside of allocations or after free,
//   * races of threads, and barriers that some threads miss (block_runner.h),
//   * mapping errors that drivers may accept (virtual_space.h), orders that no event ensures
//     (stream_queues.h), and calls that are not allowed in a capture (captured_graphs.h).
// Failures can be injected. It says nothing about speed, caches or memory models of real devices. A fault is
// a sticky error that names kernel, block and thread. Threads: as Device; calls and work items of streams
// alternate.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "device/cuda/nccl.h"
#include "device/device.h"
#include "device/emulated/block_runner.h"
#include "device/emulated/captured_graphs.h"
#include "device/emulated/device_memory.h"
#include "device/emulated/stream_queues.h"
#include "device/emulated/window_mappings.h"

namespace pagoda::device::emulated {

inline constexpr std::size_t kDeviceGranule = std::size_t{2} << 20;  // as on every GPU so far

struct EmulatedOptions {
  std::size_t memory_bytes = std::size_t{256} << 20;
  std::size_t granule = kDeviceGranule;  // granularity of reserved addresses and mappings
  std::uint64_t seed = 0;                // orders streams, blocks and threads
  // Injected failures, counted from 1; 0: none. The n-th call of the kind is refused; or the n-th launch to
  // run loses the device; or the n-th call of lost() does, while nothing runs.
  std::int64_t refused_allocation = 0, lost_launch = 0, lost_look = 0;
  bool count_accesses = false;  // conflicts and sectors (access_counts.h); slow
  bool clusters = true;         // and warpgroups, as compute capability 9.0 has them
  // Kernels with this name prefix multiply by warpgroups from the end of each step of k, which gives other
  // bits. Empty: none.
  std::string backward_kernels = {};
  // A library with NCCL's calls that works on host memory, for collectives; empty if there is none.
  std::string nccl = {};
};

class EmulatedDevice final : public Device {
 public:
  static Result<std::unique_ptr<EmulatedDevice>> create(const EmulatedOptions& options);
  ~EmulatedDevice() override;

  std::string describe() const override;
  Status lost() const override;
  std::span<const Kernel> kernels() const override;
  bool has_clusters() const override { return options_.clusters; }
  bool has_warpgroups() const override { return options_.clusters; }
  // Nothing runs early here; accesses of a kernel before it has waited are always checked.
  bool launch_early(bool early) override { return early && options_.clusters; }
  Result<std::byte*> allocate(std::size_t bytes, std::string_view name) override;
  Status free(std::byte* memory) override;
  std::size_t free_bytes() const override;
  Result<std::byte*> allocate_pinned(std::size_t bytes) override;
  Status free_pinned(std::byte* memory) override;
  std::size_t granule() const override { return memory_.granule(); }
  Result<std::byte*> reserve(std::size_t bytes) override;
  Status release(std::byte* addresses) override;
  Result<PhysicalId> create_physical(std::size_t bytes) override;
  Status destroy_physical(PhysicalId memory) override;
  Status map(std::byte* address, PhysicalId memory) override;
  Status set_access(std::byte* address, std::size_t bytes) override;
  Status unmap(std::byte* address, std::size_t bytes) override;
  Result<Window> create_window(std::size_t bytes) override;
  Result<std::byte*> open_window(const WindowHandle& handle) override;
  Status open_collectives() override;
  Result<GroupName> name_group() override { return nccl_->name_group(); }
  Status join_group(const GroupName& name, std::int32_t rank, std::int32_t size,
                    std::chrono::milliseconds timeout) override;
  Status sum_over_group(StreamId stream, float* data, std::int64_t count) override;
  Status gather_of_group(StreamId stream, const float* own, float* all, std::int64_t count) override;
  std::uint32_t exchanges_done() const override { return exchanges_.load(); }
  Status group_error() override { return nccl_->error(); }
  void leave_group(const Status& why) override { nccl_->abort(why); }
  Result<StreamId> create_stream() override;
  Result<EventId> create_event() override;
  Status record(EventId event, StreamId stream) override;
  Status wait(StreamId stream, EventId event) override;
  Status synchronize(StreamId stream) override;
  Status synchronize_event(EventId event) override;
  Status copy_in(StreamId stream, std::byte* to, const std::byte* pinned, std::size_t bytes) override;
  Status copy_out(StreamId stream, std::byte* pinned, const std::byte* from, std::size_t bytes) override;
  Status copy(StreamId stream, std::byte* to, const std::byte* from, std::size_t bytes) override;
  Status launch(StreamId stream, const Kernel& kernel, const LaunchShape& shape, const void* args) override;
  Status begin_capture(StreamId stream) override;
  Result<GraphId> end_capture(StreamId stream) override;
  Status launch_graph(StreamId stream, GraphId graph) override;
  Status destroy_graph(GraphId graph) override;
  // In software: there is no library to open.
  Status open_products() override;
  Status multiply(StreamId stream, const ProductArgs& args) override;
  Status start_profile() override;
  Result<std::vector<KernelTime>> end_profile() override;  // times of the emulation
  const AccessCounts& access_counts() const { return access_counts_; }

 private:
  EmulatedDevice(const EmulatedOptions& options, DeviceMemory memory);
  // While a Call exists, no other thread's call proceeds. Waiting threads go first, even if the
  // same caller returns at once.
  class Call {
   public:
    explicit Call(const EmulatedDevice& device) {
      const std::lock_guard next(device.next_call_);
      lock_ = std::unique_lock(device.call_);
    }

   private:
    std::unique_lock<std::mutex> lock_;
  };
  // Stores the device's error, unless it already has one, and returns it.
  Status stick(Status status) const;
  Status lose(std::string what) { return stick(internal_error(std::move(what))); }
  // The error of a call that a capture forbids, or the device's.
  Status allowed(std::string_view call) {
    PAGODA_RETURN_IF_ERROR(lost_);
    return stick(graphs_.allowed(call));
  }
  template <class Id, class Done>
  Status run_until(std::string_view name, std::string_view kind, Id id, const Done& is_done);
  // Enqueues on the stream, or adds to the graph that is being captured.
  Status put(StreamId stream, std::string_view name, StreamQueues::Task run,
             std::vector<std::uintptr_t> words);
  enum class Side { host, device };
  Status put_copy(StreamId stream, std::byte* to, Side to_side, const std::byte* from, Side from_side,
                  std::size_t bytes);
  Status put_exchange(StreamId stream, std::string_view name, const float* own, std::int64_t count,
                      float* all, std::int64_t all_count);
  std::string wrong_range(const std::byte* memory, Side side, std::size_t bytes) const;
  Status run_product(const ProductArgs& args);
  Status run(const Kernel& kernel, const LaunchShape& shape, std::span<const std::byte> args);

  mutable std::mutex next_call_, call_;
  EmulatedOptions options_;
  DeviceMemory memory_;
  WindowMappings windows_;
  std::unique_ptr<Nccl> nccl_;
  std::int32_t group_size_ = 0;
  std::atomic<std::uint32_t> exchanges_{0};
  AccessCounts access_counts_;
  BlockRunner runner_;
  StreamQueues queues_;
  CapturedGraphs graphs_;
  std::map<const std::byte*, std::vector<std::byte>> pinned_;
  std::int64_t allocations_ = 0, launches_ = 0;
  std::int32_t num_streams_ = 0;
  mutable Status lost_;
  mutable std::int64_t looks_ = 0;
  std::optional<std::vector<KernelTime>> profile_;  // one line per launch
};

}  // namespace pagoda::device::emulated
