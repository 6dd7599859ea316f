#include "kv_library/cuda_pages.h"

#include <array>

#include "base/opened_library.h"

namespace pagoda {

struct CudaPages::Driver : OpenedLibrary {
  std::int32_t device = -1;  // the device whose context is retained
  void* context = nullptr;
  int (*release_context)(int device) = nullptr;
  int (*set_context)(void* context) = nullptr;
  int (*wait)() = nullptr;
  int (*create_event)(void** event, unsigned flags) = nullptr;
  int (*destroy_event)(void* event) = nullptr;
  int (*record)(void* event, void* stream) = nullptr;
  int (*wait_for_event)(void* stream, void* event, unsigned flags) = nullptr;
  int (*copy)(unsigned long long to, unsigned long long from, std::size_t bytes) = nullptr;

  ~Driver() {
    if (device >= 0) release_context(device);
  }
  Status enter() const { return device::driver_answer(set_context(context), "cuCtxSetCurrent"); }
  Status enter_device(const char* library, std::int32_t ordinal);
};

Status CudaPages::Driver::enter_device(const char* library, std::int32_t ordinal) {
  PAGODA_RETURN_IF_ERROR(open(std::array{library}));
  int (*init)(unsigned flags) = nullptr;
  int (*get_device)(int* device, int ordinal) = nullptr;
  int (*retain_context)(void** context, int device) = nullptr;
  PAGODA_RETURN_IF_ERROR(find("cuInit", init));
  PAGODA_RETURN_IF_ERROR(find("cuDeviceGet", get_device));
  PAGODA_RETURN_IF_ERROR(find("cuDevicePrimaryCtxRetain", retain_context));
  PAGODA_RETURN_IF_ERROR(find("cuDevicePrimaryCtxRelease_v2", release_context));
  PAGODA_RETURN_IF_ERROR(find("cuCtxSetCurrent", set_context));
  PAGODA_RETURN_IF_ERROR(find("cuMemcpyDtoD_v2", copy));
  PAGODA_RETURN_IF_ERROR(find("cuCtxSynchronize", wait));
  PAGODA_RETURN_IF_ERROR(find("cuEventCreate", create_event));
  PAGODA_RETURN_IF_ERROR(find("cuEventDestroy_v2", destroy_event));
  PAGODA_RETURN_IF_ERROR(find("cuEventRecord", record));
  PAGODA_RETURN_IF_ERROR(find("cuStreamWaitEvent", wait_for_event));
  const auto ask = [](int result, const char* call) -> Status {
    return result == 0 ? ok_status() : unavailable(concat(call, ": error ", result, " of the driver"));
  };
  int found = 0;
  PAGODA_RETURN_IF_ERROR(ask(init(0), "cuInit"));
  PAGODA_RETURN_IF_ERROR(ask(get_device(&found, ordinal), "cuDeviceGet"));
  PAGODA_RETURN_IF_ERROR(ask(retain_context(&context, found), "cuDevicePrimaryCtxRetain"));
  device = found;
  return enter();
}

CudaPages::CudaPages() : driver_(std::make_unique<Driver>()) {}

CudaPages::CudaPages(CudaPages&&) noexcept = default;

CudaPages::~CudaPages() {
  if (pages_ != nullptr) (void)driver_->enter().ok();
  pages_.reset();
}

Result<CudaPages> CudaPages::create(const char* library, std::int32_t device, const PageArenaShape& shape) {
  CudaPages made;
  Driver& driver = *made.driver_;
  PAGODA_RETURN_IF_ERROR(driver.enter_device(library, device));
  auto memory = device::DriverMemory::create(
      [&driver](const char* name) { return dlsym(driver.opened, name); }, driver.device);
  if (!memory) return memory.error();
  made.memory_ = *std::move(memory);
  auto pages = device_runner::DevicePages::create(*made.memory_, shape);
  if (!pages) return pages.error();
  made.pages_ = std::make_unique<device_runner::DevicePages>(*std::move(pages));
  return made;
}

Status CudaPages::create_pages(std::int64_t first, std::int64_t count) {
  PAGODA_RETURN_IF_ERROR(driver_->enter());
  return pages_->create_pages(first, count);
}

Status CudaPages::map(std::int64_t block, std::int64_t page, std::int64_t count) {
  PAGODA_RETURN_IF_ERROR(driver_->enter());
  return pages_->map(block, page, count);
}

Status CudaPages::unmap(std::int64_t block, std::int64_t count) {
  PAGODA_RETURN_IF_ERROR(driver_->enter());
  return pages_->unmap(block, count);
}

Status CudaPages::copy(std::int64_t from, std::int64_t to, std::int32_t tensor, std::size_t bytes) const {
  PAGODA_RETURN_IF_ERROR(driver_->enter());
  const auto at = [&](std::int64_t page) {
    return reinterpret_cast<std::uintptr_t>(pages_->window() + page * pages_->page_stride() +
                                            tensor * shape().page_bytes);
  };
  return device::driver_answer(driver_->copy(at(to), at(from), bytes), "cuMemcpyDtoD");
}

Status CudaPages::wait() const {
  PAGODA_RETURN_IF_ERROR(driver_->enter());
  return device::driver_answer(driver_->wait(), "cuCtxSynchronize");
}

Status CudaPages::order(std::uint64_t stream) const {
  constexpr unsigned kNoTiming = 2;
  constexpr std::uintptr_t kLegacyStream = 1;  // CU_STREAM_LEGACY, the stream of the copies
  if (stream == kLegacyStream) return ok_status();
  PAGODA_RETURN_IF_ERROR(driver_->enter());
  void* event = nullptr;
  PAGODA_RETURN_IF_ERROR(device::driver_answer(driver_->create_event(&event, kNoTiming), "cuEventCreate"));
  const auto handle = [](std::uintptr_t value) { return reinterpret_cast<void*>(value); };
  Status status = device::driver_answer(driver_->record(event, handle(kLegacyStream)), "cuEventRecord");
  if (status.ok())
    status = device::driver_answer(driver_->wait_for_event(handle(stream), event, 0), "cuStreamWaitEvent");
  (void)driver_->destroy_event(event);  // the driver keeps it until no stream waits for it
  return status;
}

}  // namespace pagoda
