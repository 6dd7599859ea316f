// CudaDevice's sums and gathers among GPUs. A kernel after each of them counts it in pinned memory, where
// another thread sees that it has completed.
#ifdef PAGODA_CUDA
#include <atomic>

#include "device/cuda/runtime_device.h"

namespace pagoda::device {

Status CudaDevice::open_collectives() {
  if (nccl_) return ok_status();
  PAGODA_RETURN_IF_ERROR(lost());
  auto opened = Nccl::open();
  if (!opened) return opened.error();
  auto count = allocate(sizeof(std::uint32_t), "a count of exchanges");
  if (!count) return count.error();
  exchanges_ = reinterpret_cast<std::uint32_t*>(*count);
  // In a separate stream, for which the device's streams do not wait.
  PAGODA_RETURN_IF_ERROR(check(cudaMemset(exchanges_, 0, sizeof(std::uint32_t)), "cudaMemset"));
  PAGODA_RETURN_IF_ERROR(check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  auto told = allocate_pinned(sizeof(std::uint32_t));
  if (!told) return told.error();
  told_exchanges_ = reinterpret_cast<std::uint32_t*>(*told);
  *told_exchanges_ = 0;
  nccl_ = *std::move(opened);
  return ok_status();
}

Status CudaDevice::join_group(const GroupName& name, std::int32_t rank, std::int32_t size,
                              std::chrono::milliseconds timeout) {
  PAGODA_RETURN_IF_ERROR(lost());
  enter();
  Status status = nccl_->join(name, rank, size, timeout, [index = index_] { cudaSetDevice(index); });
  return status.ok() ? status : lose(std::move(status));
}

Status CudaDevice::count_exchange(StreamId stream, Status enqueued) {
  if (!enqueued.ok()) return lose(std::move(enqueued));
  return device::launch(*this, stream, kernel(*this, KernelId::count_exchange),
                        LaunchShape{.grid = {1}, .block = {kWarp}},
                        CountExchangeArgs{.count = exchanges_, .told = told_exchanges_});
}

Status CudaDevice::sum_over_group(StreamId stream, float* data, std::int64_t count) {
  PAGODA_RETURN_IF_ERROR(lost());
  return count_exchange(stream, nccl_->all_reduce(of(stream), data, count));
}

Status CudaDevice::gather_of_group(StreamId stream, const float* own, float* all, std::int64_t count) {
  PAGODA_RETURN_IF_ERROR(lost());
  return count_exchange(stream, nccl_->all_gather(of(stream), own, all, count));
}

std::uint32_t CudaDevice::exchanges_done() const {
  return std::atomic_ref(*told_exchanges_).load(std::memory_order_acquire);
}

void CudaDevice::leave_group(const Status& why) {
  enter();
  (void)lose(why);
  nccl_->abort(why);
}

}  // namespace pagoda::device
#endif
