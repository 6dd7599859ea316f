#include "device/cuda/cuda_device.h"

#include "base/strings.h"
#include "device/cuda/cublaslt.h"

#ifdef PAGODA_CUDA
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <vector>

#include "device/kernel_table.h"

namespace pagoda::device {

// As Device::kernels() gives them (kernels.cu).
std::span<const Kernel> cuda_kernels();

namespace {

// The driver's virtual memory, looked up: the program starts where there is no driver.
struct DriverMemory {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) release = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) destroy = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
};

template <class Function>
Status look_up(const char* name, Function& function) {
  constexpr unsigned kVersion = 12000;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
  if (error != cudaSuccess || found == nullptr) return unavailable(concat("the driver has no ", name));
  function = reinterpret_cast<Function>(found);
  return ok_status();
}

// On this device; pinned: its memory does not move.
CUmemAllocationProp here() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  return properties;
}

CUdeviceptr address_of(const std::byte* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

// Of a call of the driver's that says what it has not; it does not stick.
Status answer(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return ok_status();
  const std::string what = concat(call, ": error ", static_cast<int>(result), " of the driver");
  return result == CUDA_ERROR_OUT_OF_MEMORY ? resource_exhausted(what) : invalid_argument(what);
}

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> open();
  ~CudaDevice() override;

  std::string describe() const override { return name_; }
  std::span<const Kernel> kernels() const override { return cuda_kernels(); }

  Result<std::byte*> allocate(std::size_t bytes, std::string_view name) override;
  Status free(std::byte* memory) override { return check(cudaFree(memory), "cudaFree"); }
  std::size_t free_bytes() const override {
    std::size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
  }
  Result<std::byte*> allocate_pinned(std::size_t bytes) override;
  Status free_pinned(std::byte* memory) override { return check(cudaFreeHost(memory), "cudaFreeHost"); }

  std::size_t granule() const override { return granule_; }
  Result<std::byte*> reserve(std::size_t bytes) override;
  Status release(std::byte* addresses) override;
  Result<PhysicalId> create_physical(std::size_t bytes) override;
  Status destroy_physical(PhysicalId memory) override;
  Status map(std::byte* address, PhysicalId memory) override;
  Status set_access(std::byte* address, std::size_t bytes) override;
  Status unmap(std::byte* address, std::size_t bytes) override {
    return answer(driver_.unmap(address_of(address), bytes), "cuMemUnmap");
  }

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
  Status open_products() override;
  Status multiply(StreamId stream, const ProductArgs& args) override;

 private:
  cudaStream_t of(StreamId id) const { return streams_[static_cast<std::size_t>(id)]; }
  cudaEvent_t of(EventId id) const { return events_[static_cast<std::size_t>(id)]; }
  // The first error stays.
  Status check(cudaError_t error, const char* call) {
    if (lost_.ok() && error != cudaSuccess)
      lost_ = internal_error(concat(call, ": ", cudaGetErrorString(error)));
    return lost_;
  }
  Status put_copy(StreamId stream, std::byte* to, const std::byte* from, std::size_t bytes,
                  cudaMemcpyKind kind) {
    return check(cudaMemcpyAsync(to, from, bytes, kind, of(stream)), "cudaMemcpyAsync");
  }

  struct Physical {
    CUmemGenericAllocationHandle handle = 0;
    std::size_t bytes = 0;
  };
  Status look_up_driver();

  std::string name_;
  DriverMemory driver_;
  std::size_t granule_ = 0;
  std::map<std::byte*, std::size_t> reserved_;  // and how much
  std::mutex mutex_;                            // of physical_, which map() reads
  std::vector<Physical> physical_;
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
  std::unique_ptr<CublasLt> products_;
  std::byte* workspace_ = nullptr;  // of one stream's products: the runner has one
  Status lost_;
};

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

Result<std::unique_ptr<Device>> CudaDevice::open() {
  PAGODA_RETURN_IF_ERROR(check_cuda());
  auto device = std::make_unique<CudaDevice>();
  cudaDeviceProp properties = {};
  if (Status status = device->check(cudaSetDevice(0), "cudaSetDevice"); !status.ok()) return status;
  if (Status status = device->check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
      !status.ok())
    return status;
  if (properties.major < 8)
    return unavailable(concat(properties.name,
                              " is older than this program's kernels, which need compute "
                              "capability 8.0"));
  if (Status status = device->look_up_driver(); !status.ok()) return status;
  device->name_ = concat(properties.name, ", ", properties.totalGlobalMem >> 20, " MiB, compute capability ",
                         properties.major, ".", properties.minor);
  return std::unique_ptr<Device>(std::move(device));
}

CudaDevice::~CudaDevice() {
  products_.reset();
  if (workspace_ != nullptr) cudaFree(workspace_);
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

Result<std::byte*> CudaDevice::allocate(std::size_t bytes, std::string_view name) {
  if (!lost_.ok()) return lost_;
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
  if (!lost_.ok()) return lost_;
  void* memory = nullptr;
  const cudaError_t error = cudaMallocHost(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return resource_exhausted(concat(bytes, " bytes of pinned memory cannot be had"));
  }
  if (Status status = check(error, "cudaMallocHost"); !status.ok()) return status;
  return static_cast<std::byte*>(memory);
}

Status CudaDevice::look_up_driver() {
  PAGODA_RETURN_IF_ERROR(look_up("cuMemGetAllocationGranularity", driver_.granularity));
  PAGODA_RETURN_IF_ERROR(look_up("cuMemAddressReserve", driver_.reserve));
  PAGODA_RETURN_IF_ERROR(look_up("cuMemAddressFree", driver_.release));
  PAGODA_RETURN_IF_ERROR(look_up("cuMemCreate", driver_.create));
  PAGODA_RETURN_IF_ERROR(look_up("cuMemRelease", driver_.destroy));
  PAGODA_RETURN_IF_ERROR(look_up("cuMemMap", driver_.map));
  PAGODA_RETURN_IF_ERROR(look_up("cuMemSetAccess", driver_.set_access));
  PAGODA_RETURN_IF_ERROR(look_up("cuMemUnmap", driver_.unmap));
  const CUmemAllocationProp properties = here();
  return answer(driver_.granularity(&granule_, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                "cuMemGetAllocationGranularity");
}

Result<std::byte*> CudaDevice::reserve(std::size_t bytes) {
  if (!lost_.ok()) return lost_;
  CUdeviceptr address = 0;
  if (Status status = answer(driver_.reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve"); !status.ok())
    return status;
  auto* const addresses = reinterpret_cast<std::byte*>(address);
  reserved_.emplace(addresses, bytes);
  return addresses;
}

Status CudaDevice::release(std::byte* addresses) {
  const auto found = reserved_.find(addresses);
  if (found == reserved_.end())
    return invalid_argument("release() of an address that reserve() did not give");
  const std::size_t bytes = found->second;
  reserved_.erase(found);
  return answer(driver_.release(address_of(addresses), bytes), "cuMemAddressFree");
}

Result<PhysicalId> CudaDevice::create_physical(std::size_t bytes) {
  if (!lost_.ok()) return lost_;
  const CUmemAllocationProp properties = here();
  Physical physical = {.bytes = bytes};
  if (Status status = answer(driver_.create(&physical.handle, bytes, &properties, 0), "cuMemCreate");
      !status.ok())
    return status;
  const std::lock_guard lock(mutex_);
  physical_.push_back(physical);
  return static_cast<PhysicalId>(physical_.size() - 1);
}

Status CudaDevice::destroy_physical(PhysicalId memory) {
  const std::lock_guard lock(mutex_);
  return answer(driver_.destroy(physical_[static_cast<std::size_t>(memory)].handle), "cuMemRelease");
}

Status CudaDevice::map(std::byte* address, PhysicalId memory) {
  Physical physical;
  {
    const std::lock_guard lock(mutex_);
    physical = physical_[static_cast<std::size_t>(memory)];
  }
  return answer(driver_.map(address_of(address), physical.bytes, 0, physical.handle, 0), "cuMemMap");
}

Status CudaDevice::set_access(std::byte* address, std::size_t bytes) {
  CUmemAccessDesc access = {};
  access.location = here().location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return answer(driver_.set_access(address_of(address), bytes, &access, 1), "cuMemSetAccess");
}

Result<StreamId> CudaDevice::create_stream() {
  cudaStream_t stream = nullptr;
  if (Status status = check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
      !status.ok())
    return status;
  streams_.push_back(stream);
  return static_cast<StreamId>(streams_.size() - 1);
}

Result<EventId> CudaDevice::create_event() {
  cudaEvent_t event = nullptr;
  if (Status status = check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
      !status.ok())
    return status;
  events_.push_back(event);
  return static_cast<EventId>(events_.size() - 1);
}

Status CudaDevice::launch(StreamId stream, const Kernel& kernel, const LaunchShape& shape, const void* args) {
  const dim3 grid(shape.grid.x, shape.grid.y, shape.grid.z),
      block(shape.block.x, shape.block.y, shape.block.z);
  void* const arguments[] = {const_cast<void*>(args)};
  return check(cudaLaunchKernel(kernel.entry, grid, block, const_cast<void**>(arguments), shape.shared_bytes,
                                of(stream)),
               kernel.name);
}

Status CudaDevice::open_products() {
  if (products_) return ok_status();
  auto opened = CublasLt::open();
  if (!opened) return opened.error();
  auto workspace = allocate(kWorkspaceBytes, "the library's workspace");
  if (!workspace) return workspace.error();
  products_ = *std::move(opened);
  workspace_ = *workspace;
  return ok_status();
}

Status CudaDevice::multiply(StreamId stream, const ProductArgs& args) {
  if (!lost_.ok()) return lost_;
  CHECK(products_ != nullptr);
  lost_ = products_->multiply(of(stream), args, workspace_, kWorkspaceBytes);
  return lost_;
}

}  // namespace

std::string cuda_build() {
  return concat(cuda_kernels().size(), " kernels for " PAGODA_CUDA_ARCHITECTURES ", CUDA ",
                CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10, "; never run on a GPU");
}

std::string cuda_products() { return CublasLt::describe(); }

Status check_cuda() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return ok_status();
  return unavailable(concat("no CUDA device can be used here: ",
                            error != cudaSuccess ? cudaGetErrorString(error) : "there is none"));
}

Result<std::unique_ptr<Device>> open_cuda_device() { return CudaDevice::open(); }

}  // namespace pagoda::device

#else

namespace pagoda::device {

std::string cuda_build() { return "none: built without CUDA"; }

std::string cuda_products() { return "none: built without CUDA"; }

Status check_cuda() {
  return unavailable("this program was built without CUDA (cmake -DPAGODA_CUDA=ON, script/cuda)");
}

Result<std::unique_ptr<Device>> open_cuda_device() { return check_cuda(); }

}  // namespace pagoda::device

#endif
