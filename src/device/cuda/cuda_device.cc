#include "device/cuda/cuda_device.h"

#ifdef PAGODA_CUDA
#include <cuda.h>

#include <cstddef>
#include <cstdlib>

#include "base/log.h"
#include "device/cuda/runtime_device.h"
#include "device/kernels/launch_shapes.h"

namespace pagoda::device {
namespace {

// driver_memory.h's copies of the structs in cuda.h.
static_assert(sizeof(DriverAllocation) == sizeof(CUmemAllocationProp) &&
              offsetof(DriverAllocation, location) == offsetof(CUmemAllocationProp, location) &&
              offsetof(DriverAllocation, usage) == offsetof(CUmemAllocationProp, allocFlags.usage));
static_assert(sizeof(DriverAccess) == sizeof(CUmemAccessDesc) &&
              offsetof(DriverAccess, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(DriverAllocation{}.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
              DriverLocation{}.type == CU_MEM_LOCATION_TYPE_DEVICE &&
              DriverAccess{}.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

// A driver function, looked up by name: the program also starts without a driver.
void* entry_point(const char* name) {
  constexpr unsigned kVersion = 12000;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
  return error == cudaSuccess ? found : nullptr;
}

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

// True for a GPU newer than the program's device code whose driver does not translate the program's PTX.
bool cannot_run(cudaError_t error) {
  return error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion ||
         error == cudaErrorInvalidDeviceFunction || error == cudaErrorJitCompilerNotFound ||
         error == cudaErrorInvalidPtx || error == cudaErrorJitCompilationDisabled;
}

// True if the hardware failed, whatever it was computing; other errors may be a kernel's own.
bool is_of_hardware(cudaError_t error) {
  return error == cudaErrorECCUncorrectable || error == cudaErrorNvlinkUncorrectable ||
         error == cudaErrorContained || error == cudaErrorDevicesUnavailable || error == cudaErrorNoDevice ||
         error == cudaErrorSystemNotReady;
}

}  // namespace

Result<std::unique_ptr<Device>> CudaDevice::open(std::int32_t index, XidErrors errors) {
  PAGODA_RETURN_IF_ERROR(check_cuda(index));
  auto device = std::make_unique<CudaDevice>();
  device->index_ = index;
  cudaDeviceProp properties = {};
  if (Status status = device->check(cudaSetDevice(index), "cudaSetDevice"); !status.ok()) return status;
  device->enter();
  if (Status status = device->check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
      !status.ok())
    return status;
  if (properties.major < 8)
    return unavailable(concat(properties.name,
                              " is older than this program's kernels, which need compute "
                              "capability 8.0"));
  auto driver = DriverMemory::create(entry_point, index);
  if (!driver) return driver.error();
  device->driver_ = *std::move(driver);
  // Shared memory above 48 KiB must be requested.
  for (const Kernel& kernel : cuda_kernels()) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes);
    if (cannot_run(error))
      return unavailable(concat(properties.name, " has compute capability ", properties.major, ".",
                                properties.minor, ", where this program's device code (", cuda_build(),
                                ") does not run: ", cudaGetErrorString(error)));
    if (Status status = device->check(error, kernel.name); !status.ok()) return status;
  }
  // The instructions of kernels/cluster_words.cuh, and wait_for_earlier(), are compiled for 9.0 and up, and
  // not into PTX for 8.0, even if the driver translates it.
  cudaFuncAttributes attributes = {};
  if (Status status =
          device->check(cudaFuncGetAttributes(&attributes, cuda_kernels()[0].entry), "cudaFuncGetAttributes");
      !status.ok())
    return status;
  device->has_clusters_ = attributes.ptxVersion >= 90;
  device->launch_early(choices::early_launch != 0);
  // Those of kernels/warpgroup_words.cuh are for 9.0 only.
  device->has_warpgroups_ = attributes.ptxVersion == 90 && attributes.binaryVersion == 90;
  if (device->has_warpgroups_)
    for (const Kernel& kernel : cuda_kernels())
      if (Status status =
              device->check(cudaFuncSetAttribute(kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 kMaxClusterSharedBytes),
                            kernel.name);
          !status.ok())
        return status;
  if (errors == XidErrors::watched) PAGODA_RETURN_IF_ERROR(device->watch_errors());
  device->name_ = concat(properties.name, ", ", properties.totalGlobalMem >> 20, " MiB, compute capability ",
                         properties.major, ".", properties.minor);
  return std::unique_ptr<Device>(std::move(device));
}

Status CudaDevice::watch_errors() {
  char address[32] = {};
  PAGODA_RETURN_IF_ERROR(
      check(cudaDeviceGetPCIBusId(address, sizeof address, index_), "cudaDeviceGetPCIBusId"));
  auto watch = XidWatch::start(address, [this](Status status) { (void)lose(std::move(status)); });
  if (watch)
    watch_ = *std::move(watch);
  else
    log_info("device", concat("Xid errors are not watched: ", watch.error().message()));
  return ok_status();
}

Status CudaDevice::status_of(cudaError_t error, const char* call) {
  std::string what = concat(call, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
  return is_of_hardware(error) ? unavailable(std::move(what)) : internal_error(std::move(what));
}

CudaDevice::~CudaDevice() {
  watch_.reset();
  enter();
  // The library waits for graphs that hold its calls.
  for (cudaGraphExec_t graph : graphs_)
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  nccl_.reset();
  if (exchanges_ != nullptr) cudaFree(exchanges_);
  if (told_exchanges_ != nullptr) cudaFreeHost(told_exchanges_);
  products_.reset();
  if (workspace_ != nullptr) cudaFree(workspace_);
  for (void* window : opened_) cudaIpcCloseMemHandle(window);
  for (std::byte* window : windows_) cudaFree(window);
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

Result<StreamId> CudaDevice::create_stream() {
  enter();
  cudaStream_t stream = nullptr;
  if (Status status = check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
      !status.ok())
    return status;
  streams_.push_back(stream);
  return static_cast<StreamId>(streams_.size() - 1);
}

Result<EventId> CudaDevice::create_event() {
  enter();
  cudaEvent_t event = nullptr;
  if (Status status = check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
      !status.ok())
    return status;
  events_.push_back(event);
  return static_cast<EventId>(events_.size() - 1);
}

Status CudaDevice::open_products() {
  if (products_) return ok_status();
  enter();
  auto opened = CublasLt::open();
  if (!opened) return opened.error();
  auto workspace = allocate(kWorkspaceBytes, "the library's workspace");
  if (!workspace) return workspace.error();
  products_ = *std::move(opened);
  workspace_ = *workspace;
  return ok_status();
}

Status CudaDevice::multiply(StreamId stream, const ProductArgs& args) {
  PAGODA_RETURN_IF_ERROR(lost());
  CHECK(products_ != nullptr);
  Status status = products_->multiply(of(stream), args, workspace_, kWorkspaceBytes);
  return status.ok() ? status : lose(std::move(status));
}

std::string cuda_build() {
  return concat(cuda_kernels().size(), " kernels for " PAGODA_CUDA_ARCHITECTURES ", CUDA ",
                CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10);
}

std::string cuda_products() { return CublasLt::describe(); }

std::string cuda_exchanges() { return Nccl::describe(); }

Status check_cuda(std::int32_t index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && index < count) return ok_status();
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string by = visible == nullptr ? "" : concat(" (CUDA_VISIBLE_DEVICES is '", visible, "')");
  if (error == cudaSuccess && count > 0)
    return unavailable(concat("no GPU has the number ", index, ": there are ", count, ", from 0 on", by));
  return unavailable(concat("no CUDA device can be used here: ",
                            error != cudaSuccess ? cudaGetErrorString(error) : "there is none", by));
}

Result<std::unique_ptr<Device>> open_cuda_device(std::int32_t index, XidErrors errors) {
  return CudaDevice::open(index, errors);
}

}  // namespace pagoda::device

#else

namespace pagoda::device {

std::string cuda_build() { return "none: built without CUDA"; }

std::string cuda_products() { return "none: built without CUDA"; }

std::string cuda_exchanges() { return "none: built without CUDA"; }

Status check_cuda(std::int32_t) {
  return unavailable("this program was built without CUDA (cmake -DPAGODA_CUDA=ON, script/cuda)");
}

Result<std::unique_ptr<Device>> open_cuda_device(std::int32_t index, XidErrors) { return check_cuda(index); }

}  // namespace pagoda::device

#endif
