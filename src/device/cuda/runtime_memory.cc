// CudaDevice's memory: device, pinned, and windows between devices.
#ifdef PAGODA_CUDA
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "device/cuda/runtime_device.h"

namespace pagoda::device {

Result<std::byte*> CudaDevice::allocate(std::size_t bytes, std::string_view name) {
  PAGODA_RETURN_IF_ERROR(lost());
  enter();
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // an expected answer, not a sticky error
    return resource_exhausted(
        concat("the device has ", free_bytes(), " bytes free: ", bytes, " for ", name, " do not fit"));
  }
  if (Status status = check(error, "cudaMalloc"); !status.ok()) return status;
  return static_cast<std::byte*>(memory);
}

Result<std::byte*> CudaDevice::allocate_pinned(std::size_t bytes) {
  PAGODA_RETURN_IF_ERROR(lost());
  enter();
  void* memory = nullptr;
  const cudaError_t error = cudaMallocHost(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return resource_exhausted(concat(bytes, " bytes of pinned memory cannot be had"));
  }
  if (Status status = check(error, "cudaMallocHost"); !status.ok()) return status;
  return static_cast<std::byte*>(memory);
}

namespace {
constexpr std::uint32_t kWindowKind = 0x63756461;  // marks the handle of a CUDA device
struct CudaWindow {
  std::uint32_t kind = kWindowKind;
  std::int32_t process = 0, device = 0;
  std::byte* memory = nullptr;  // in its process
  cudaIpcMemHandle_t ipc = {};
};
static_assert(sizeof(CudaWindow) <= sizeof(WindowHandle));
}  // namespace

Result<Window> CudaDevice::create_window(std::size_t bytes) {
  auto memory = allocate(bytes, "a window");
  if (!memory) return memory.error();
  windows_.push_back(*memory);
  CudaWindow own = {.process = ::getpid(), .device = index_, .memory = *memory};
  if (Status status = check(cudaIpcGetMemHandle(&own.ipc, *memory), "cudaIpcGetMemHandle"); !status.ok())
    return status;
  Window window = {.memory = *memory, .handle = {}};
  std::memcpy(window.handle.bytes.data(), &own, sizeof(own));
  return window;
}

Result<std::byte*> CudaDevice::open_window(const WindowHandle& handle) {
  PAGODA_RETURN_IF_ERROR(lost());
  CudaWindow other;
  std::memcpy(&other, handle.bytes.data(), sizeof(other));
  if (other.kind != kWindowKind) return unavailable("a window that is no CUDA device's");
  enter();
  if (other.device != index_) {
    int can = 0;
    if (Status status = check(cudaDeviceCanAccessPeer(&can, index_, other.device), "cudaDeviceCanAccessPeer");
        !status.ok())
      return status;
    if (can == 0)
      return unavailable(concat("GPU ", index_, " cannot reach the memory of GPU ", other.device));
  }
  if (other.process != ::getpid()) {
    void* opened = nullptr;
    if (Status status = check(cudaIpcOpenMemHandle(&opened, other.ipc, cudaIpcMemLazyEnablePeerAccess),
                              "cudaIpcOpenMemHandle");
        !status.ok())
      return status;
    opened_.push_back(opened);
    return static_cast<std::byte*>(opened);
  }
  if (other.device != index_) {
    const cudaError_t error = cudaDeviceEnablePeerAccess(other.device, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled)
      (void)cudaGetLastError();
    else if (Status status = check(error, "cudaDeviceEnablePeerAccess"); !status.ok())
      return status;
  }
  return other.memory;
}

}  // namespace pagoda::device
#endif
