#include "device/cuda/cuda_device.h"

#include "base/strings.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/driver_memory.h"

#ifdef PAGODA_CUDA
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device/kernel_table.h"

namespace pagoda::device {

// As Device::kernels() gives them (kernels.cu).
std::span<const Kernel> cuda_kernels();

namespace {

// driver_memory.h's copies of cuda.h's structs.
static_assert(sizeof(DriverAllocation) == sizeof(CUmemAllocationProp) &&
              offsetof(DriverAllocation, location) == offsetof(CUmemAllocationProp, location) &&
              offsetof(DriverAllocation, usage) == offsetof(CUmemAllocationProp, allocFlags.usage));
static_assert(sizeof(DriverAccess) == sizeof(CUmemAccessDesc) &&
              offsetof(DriverAccess, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(DriverAllocation{}.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
              DriverLocation{}.type == CU_MEM_LOCATION_TYPE_DEVICE &&
              DriverAccess{}.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

// The driver's, looked up: the program starts where there is no driver.
void* entry_point(const char* name) {
  constexpr unsigned kVersion = 12000;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
  return error == cudaSuccess ? found : nullptr;
}

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> open(std::int32_t index);
  ~CudaDevice() override;

  std::string describe() const override { return name_; }
  std::span<const Kernel> kernels() const override { return cuda_kernels(); }
  bool has_clusters() const override { return has_clusters_; }
  bool has_warpgroups() const override { return has_warpgroups_; }

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
  // The runtime's calls are for the thread's own GPU, which is the first until it says otherwise: a runner is
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
  // The first error stays; other threads may have it.
  Status check(cudaError_t error, const char* call) {
    if (error == cudaSuccess && !is_lost_.load(std::memory_order_acquire)) return ok_status();
    return error == cudaSuccess ? lost()
                                : lose(internal_error(concat(call, ": ", cudaGetErrorString(error))));
  }
  Status lost() const {
    const std::lock_guard lock(error_);
    return lost_;
  }
  Status lose(Status status) {
    const std::lock_guard lock(error_);
    if (lost_.ok()) lost_ = std::move(status);
    is_lost_.store(true, std::memory_order_release);
    return lost_;
  }
  // The kernel's own error, where it has one.
  Status put_launch(StreamId stream, const Kernel& kernel, const LaunchShape& shape, const void* args);
  Status put_copy(StreamId stream, std::byte* to, const std::byte* from, std::size_t bytes,
                  cudaMemcpyKind kind) {
    return check(cudaMemcpyAsync(to, from, bytes, kind, of(stream)), "cudaMemcpyAsync");
  }

  std::string name_;
  std::int32_t index_ = 0;
  bool has_clusters_ = false, has_warpgroups_ = false;
  std::unique_ptr<DriverMemory> driver_;
  std::vector<std::byte*> windows_;  // own ones,
  std::vector<void*> opened_;        // and other processes'
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
  std::vector<cudaGraphExec_t> graphs_;  // by id; null: destroyed
  std::unique_ptr<CublasLt> products_;
  std::optional<std::vector<TimedLaunch>> profile_;
  std::byte* workspace_ = nullptr;  // for one stream's products: the runner has one
  std::atomic<bool> is_lost_{false};
  mutable std::mutex error_;
  Status lost_;
};

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

// A GPU newer than the program's device code, whose driver does not translate the PTX that is there for it.
bool cannot_run(cudaError_t error) {
  return error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion ||
         error == cudaErrorInvalidDeviceFunction || error == cudaErrorJitCompilerNotFound ||
         error == cudaErrorInvalidPtx || error == cudaErrorJitCompilationDisabled;
}

Result<std::unique_ptr<Device>> CudaDevice::open(std::int32_t index) {
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
  // More shared memory than 48 KiB is given to who asks for it.
  for (const Kernel& kernel : cuda_kernels()) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes);
    if (cannot_run(error))
      return unavailable(concat(properties.name, " has compute capability ", properties.major, ".",
                                properties.minor, ", where this program's device code (", cuda_build(),
                                ") does not run: ", cudaGetErrorString(error)));
    if (Status status = device->check(error, kernel.name); !status.ok()) return status;
  }
  // The words of kernels/cluster_words.cuh are compiled for 9.0 and up, and not into PTX for 8.0, whoever
  // translates it.
  cudaFuncAttributes attributes = {};
  if (Status status =
          device->check(cudaFuncGetAttributes(&attributes, cuda_kernels()[0].entry), "cudaFuncGetAttributes");
      !status.ok())
    return status;
  device->has_clusters_ = attributes.ptxVersion >= 90;
  // Those of kernels/warpgroup_words.cuh are for 9.0 alone.
  device->has_warpgroups_ = attributes.ptxVersion == 90 && attributes.binaryVersion == 90;
  if (device->has_warpgroups_)
    for (const Kernel& kernel : cuda_kernels())
      if (Status status =
              device->check(cudaFuncSetAttribute(kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 kMaxClusterSharedBytes),
                            kernel.name);
          !status.ok())
        return status;
  device->name_ = concat(properties.name, ", ", properties.totalGlobalMem >> 20, " MiB, compute capability ",
                         properties.major, ".", properties.minor);
  return std::unique_ptr<Device>(std::move(device));
}

CudaDevice::~CudaDevice() {
  enter();
  products_.reset();
  if (workspace_ != nullptr) cudaFree(workspace_);
  for (void* window : opened_) cudaIpcCloseMemHandle(window);
  for (std::byte* window : windows_) cudaFree(window);
  for (cudaGraphExec_t graph : graphs_)
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

Result<std::byte*> CudaDevice::allocate(std::size_t bytes, std::string_view name) {
  PAGODA_RETURN_IF_ERROR(lost());
  enter();
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it is an answer, and does not stay
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
constexpr std::uint32_t kWindowKind = 0x63756461;  // a CUDA device's handle
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
  if (!lost_.ok()) return lost_;
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
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = cluster.val.clusterDim.z = 1;
  cluster.val.clusterDim.y = shape.cluster;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(shape.grid.x, shape.grid.y, shape.grid.z);
  config.blockDim = dim3(shape.block.x, shape.block.y, shape.block.z);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = of(stream);
  config.attrs = &cluster;
  config.numAttrs = shape.cluster > 1 ? 1 : 0;
  return check(cudaLaunchKernelExC(&config, kernel.entry, arguments), kernel.name);
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

}  // namespace

std::string cuda_build() {
  return concat(cuda_kernels().size(), " kernels for " PAGODA_CUDA_ARCHITECTURES ", CUDA ",
                CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10);
}

std::string cuda_products() { return CublasLt::describe(); }

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

Result<std::unique_ptr<Device>> open_cuda_device(std::int32_t index) { return CudaDevice::open(index); }

}  // namespace pagoda::device

#else

namespace pagoda::device {

std::string cuda_build() { return "none: built without CUDA"; }

std::string cuda_products() { return "none: built without CUDA"; }

Status check_cuda(std::int32_t) {
  return unavailable("this program was built without CUDA (cmake -DPAGODA_CUDA=ON, script/cuda)");
}

Result<std::unique_ptr<Device>> open_cuda_device(std::int32_t index) { return check_cuda(index); }

}  // namespace pagoda::device

#endif
