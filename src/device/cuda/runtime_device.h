#pragma once
// CudaDevice: device.h on the CUDA runtime, for the files of this folder that implement it; only in builds
// with the toolkit. Threads: as Device. Owner: the caller that opened it (cuda_device.h).
#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver_memory.h"
#include "device/cuda/nccl.h"
#include "device/cuda/xid_watch.h"
#include "device/kernel_table.h"

namespace pagoda::device {

// Device::kernels() of the CUDA device (kernels.cu).
std::span<const Kernel> cuda_kernels();

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> open(std::int32_t index, XidErrors errors);
  ~CudaDevice() override;

  std::string describe() const override { return name_; }
  Status lost() const override {
    const std::lock_guard lock(error_);
    return lost_;
  }
  std::span<const Kernel> kernels() const override { return cuda_kernels(); }
  bool has_clusters() const override { return has_clusters_; }
  bool has_warpgroups() const override { return has_warpgroups_; }
  bool launch_early(bool early) override { return launches_early_ = early && has_clusters_; }

  Result<std::byte*> allocate(std::size_t bytes, std::string_view name) override;
  Status free(std::byte* memory) override {
    enter();
    return check(cudaFree(memory), "cudaFree");
  }
  std::size_t free_bytes() const override {
    enter();
    std::size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
  }
  Result<std::byte*> allocate_pinned(std::size_t bytes) override;
  Status free_pinned(std::byte* memory) override {
    enter();
    return check(cudaFreeHost(memory), "cudaFreeHost");
  }

  std::size_t granule() const override { return driver_->granule(); }
  Result<std::byte*> reserve(std::size_t bytes) override {
    PAGODA_RETURN_IF_ERROR(lost());
    return driver_->reserve(bytes);
  }
  Status release(std::byte* addresses) override { return driver_->release(addresses); }
  Result<PhysicalId> create_physical(std::size_t bytes) override {
    PAGODA_RETURN_IF_ERROR(lost());
    return driver_->create_physical(bytes);
  }
  Status destroy_physical(PhysicalId memory) override { return driver_->destroy_physical(memory); }
  Status map(std::byte* address, PhysicalId memory) override { return driver_->map(address, memory); }
  Status set_access(std::byte* address, std::size_t bytes) override {
    return driver_->set_access(address, bytes);
  }
  Status unmap(std::byte* address, std::size_t bytes) override { return driver_->unmap(address, bytes); }

  Result<Window> create_window(std::size_t bytes) override;
  Result<std::byte*> open_window(const WindowHandle& handle) override;

  Status open_collectives() override;
  Result<GroupName> name_group() override { return nccl_->name_group(); }
  Status join_group(const GroupName& name, std::int32_t rank, std::int32_t size,
                    std::chrono::milliseconds timeout) override;
  Status sum_over_group(StreamId stream, float* data, std::int64_t count) override;
  Status gather_of_group(StreamId stream, const float* own, float* all, std::int64_t count) override;
  std::uint32_t exchanges_done() const override;
  Status group_error() override { return nccl_->error(); }
  void leave_group(const Status& why) override;

  Result<StreamId> create_stream() override;
  Result<EventId> create_event() override;
  Status record(EventId event, StreamId stream) override {
    return check(cudaEventRecord(of(event), of(stream)), "cudaEventRecord");
  }
  Status wait(StreamId stream, EventId event) override {
    return check(cudaStreamWaitEvent(of(stream), of(event), 0), "cudaStreamWaitEvent");
  }
  Status synchronize(StreamId stream) override {
    return check(cudaStreamSynchronize(of(stream)), "cudaStreamSynchronize");
  }
  Status synchronize_event(EventId event) override {
    enter();
    return check(cudaEventSynchronize(of(event)), "cudaEventSynchronize");
  }
  Status copy_in(StreamId stream, std::byte* to, const std::byte* pinned, std::size_t bytes) override {
    return put_copy(stream, to, pinned, bytes, cudaMemcpyHostToDevice);
  }
  Status copy_out(StreamId stream, std::byte* pinned, const std::byte* from, std::size_t bytes) override {
    return put_copy(stream, pinned, from, bytes, cudaMemcpyDeviceToHost);
  }
  Status copy(StreamId stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    return put_copy(stream, to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  Status launch(StreamId stream, const Kernel& kernel, const LaunchShape& shape, const void* args) override;
  Status begin_capture(StreamId stream) override;
  Result<GraphId> end_capture(StreamId stream) override;
  Status launch_graph(StreamId stream, GraphId graph) override {
    return check(cudaGraphLaunch(graphs_[static_cast<std::size_t>(graph)], of(stream)), "cudaGraphLaunch");
  }
  Status destroy_graph(GraphId graph) override {
    enter();
    const cudaGraphExec_t kept = std::exchange(graphs_[static_cast<std::size_t>(graph)], nullptr);
    return check(cudaGraphExecDestroy(kept), "cudaGraphExecDestroy");
  }
  Status open_products() override;
  Status multiply(StreamId stream, const ProductArgs& args) override;
  Status start_profile() override {
    profile_.emplace();
    return lost();
  }
  Result<std::vector<KernelTime>> end_profile() override;

 private:
  struct TimedLaunch {
    const char* kernel;
    cudaEvent_t before = nullptr, after = nullptr;
  };
  // The runtime's calls apply to the current thread's GPU, which is the first one by default: a runner is
  // opened by one thread and used by another.
  void enter() const {
    static thread_local std::int32_t of_thread = 0;
    if (of_thread != index_ && cudaSetDevice(index_) == cudaSuccess) of_thread = index_;
  }
  cudaStream_t of(StreamId id) const {
    enter();
    return streams_[static_cast<std::size_t>(id)];
  }
  cudaEvent_t of(EventId id) const { return events_[static_cast<std::size_t>(id)]; }
  // The first error is kept; another thread may have set it.
  Status check(cudaError_t error, const char* call) {
    if (error == cudaSuccess && !is_lost_.load(std::memory_order_acquire)) return ok_status();
    return error == cudaSuccess ? lost() : lose(status_of(error, call));
  }
  static Status status_of(cudaError_t error, const char* call);
  Status lose(Status status) {
    const std::lock_guard lock(error_);
    if (lost_.ok()) lost_ = std::move(status);
    is_lost_.store(true, std::memory_order_release);
    return lost_;
  }
  Status count_exchange(StreamId stream, Status enqueued);
  Status watch_errors();
  // Returns the kernel's own error, if any.
  Status put_launch(StreamId stream, const Kernel& kernel, const LaunchShape& shape, const void* args);
  Status put_copy(StreamId stream, std::byte* to, const std::byte* from, std::size_t bytes,
                  cudaMemcpyKind kind) {
    return check(cudaMemcpyAsync(to, from, bytes, kind, of(stream)), "cudaMemcpyAsync");
  }

  std::string name_;
  std::int32_t index_ = 0;
  bool has_clusters_ = false, has_warpgroups_ = false, launches_early_ = false;
  std::unique_ptr<DriverMemory> driver_;
  std::vector<std::byte*> windows_;  // its own windows,
  std::vector<void*> opened_;        // and those of other processes
  std::unique_ptr<Nccl> nccl_;
  // Number of completed exchanges, in device memory and in pinned memory.
  std::uint32_t *exchanges_ = nullptr, *told_exchanges_ = nullptr;
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
  std::vector<cudaGraphExec_t> graphs_;  // by id; null: destroyed
  std::unique_ptr<CublasLt> products_;
  std::optional<std::vector<TimedLaunch>> profile_;
  std::byte* workspace_ = nullptr;  // for the products of one stream: a runner has only one
  std::atomic<bool> is_lost_{false};
  mutable std::mutex error_;
  Status lost_;
  std::unique_ptr<XidWatch> watch_;  // null: not requested, or there is no NVML; last: it calls lose()
};

}  // namespace pagoda::device
