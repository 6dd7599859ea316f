// CudaDevice's launches: single, as graphs and timed.
#ifdef PAGODA_CUDA
#include "device/cuda/runtime_device.h"

namespace pagoda::device {

Status CudaDevice::launch(StreamId stream, const Kernel& kernel, const LaunchShape& shape, const void* args) {
  if (!profile_) return put_launch(stream, kernel, shape, args);
  TimedLaunch& timed = profile_->emplace_back(TimedLaunch{.kernel = kernel.name});
  for (cudaEvent_t* const event : {&timed.before, &timed.after})
    PAGODA_RETURN_IF_ERROR(check(cudaEventCreate(event), "cudaEventCreate"));
  PAGODA_RETURN_IF_ERROR(check(cudaEventRecord(timed.before, of(stream)), "cudaEventRecord"));
  PAGODA_RETURN_IF_ERROR(put_launch(stream, kernel, shape, args));
  return check(cudaEventRecord(timed.after, of(stream)), "cudaEventRecord");
}

// Another thread may map memory meanwhile.
Status CudaDevice::begin_capture(StreamId stream) {
  if (profile_) return internal_error("begin_capture() in a profile");
  return check(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
}

Result<GraphId> CudaDevice::end_capture(StreamId stream) {
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t graph = nullptr;
  if (Status status = check(cudaStreamEndCapture(of(stream), &captured), "cudaStreamEndCapture");
      !status.ok())
    return status;
  const cudaError_t made = cudaGraphInstantiate(&graph, captured, 0);
  cudaGraphDestroy(captured);
  if (Status status = check(made, "cudaGraphInstantiate"); !status.ok()) return status;
  graphs_.push_back(graph);
  return static_cast<GraphId>(graphs_.size() - 1);
}

Result<std::vector<KernelTime>> CudaDevice::end_profile() {
  enter();
  const std::vector<TimedLaunch> launches =
      std::exchange(profile_, std::nullopt).value_or(std::vector<TimedLaunch>());
  (void)check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::vector<KernelTime> times;
  for (const TimedLaunch& launch : launches) {
    float milliseconds = 0;
    if (!is_lost_.load())
      (void)check(cudaEventElapsedTime(&milliseconds, launch.before, launch.after), "cudaEventElapsedTime");
    times.push_back({launch.kernel, 1, 1e3 * milliseconds});
    for (cudaEvent_t const event : {launch.before, launch.after})
      if (event != nullptr) cudaEventDestroy(event);
  }
  PAGODA_RETURN_IF_ERROR(lost());
  return sum_by_kernel(times);
}

Status CudaDevice::put_launch(StreamId stream, const Kernel& kernel, const LaunchShape& shape,
                              const void* args) {
  void* arguments[] = {const_cast<void*>(args)};
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.attrs = attributes;
  if (shape.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = cluster.val.clusterDim.z = 1;
    cluster.val.clusterDim.y = shape.cluster;
  }
  if (launches_early_) {
    cudaLaunchAttribute& early = attributes[config.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  config.gridDim = dim3(shape.grid.x, shape.grid.y, shape.grid.z);
  config.blockDim = dim3(shape.block.x, shape.block.y, shape.block.z);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = of(stream);
  return check(cudaLaunchKernelExC(&config, kernel.entry, arguments), kernel.name);
}

}  // namespace pagoda::device
#endif
