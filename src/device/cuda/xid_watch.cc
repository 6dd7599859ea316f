#include "device/cuda/xid_watch.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/opened_library.h"
#include "base/strings.h"

namespace pagoda::device {
namespace {

constexpr std::array kNvmlNames = {"libnvidia-ml.so.1"};
// NVML's numbers, as documented.
constexpr int kNvmlSuccess = 0, kTimeout = 10, kGpuIsLost = 15;
constexpr unsigned long long kXidCriticalError = 8;
constexpr unsigned kWaitMs = 250;  // maximum delay until a stop request is noticed

using Gpu = void*;
using Events = void*;
struct Event {
  Gpu gpu;
  unsigned long long type, data;  // data: the Xid
  unsigned gpu_instance, compute_instance;
};

}  // namespace

const char* fatal_xid(std::uint64_t xid) {
  switch (xid) {
    case 48:
      return "double-bit ECC error";
    case 62:
      return "internal micro-controller halt";
    case 64:
      return "ECC row remapper failure";
    case 79:
      return "GPU has fallen off the bus";
    case 95:
      return "uncontained ECC error";
    case 119:
      return "GSP RPC timeout";
    case 120:
      return "GSP error";
    case 140:
      return "unrecovered ECC error";
    default:
      return nullptr;
  }
}

struct XidWatch::Library : OpenedLibrary {
  bool begun = false;
  Events events = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*gpu_at)(const char* pci_address, Gpu*) = nullptr;
  int (*create)(Events*) = nullptr;
  int (*destroy)(Events) = nullptr;
  int (*listen)(Gpu, unsigned long long types, Events) = nullptr;
  int (*wait)(Events, Event*, unsigned milliseconds) = nullptr;
  const char* (*name_of)(int error) = nullptr;

  ~Library() {
    if (events != nullptr) destroy(events);
    if (begun) shutdown();
  }
  Status look_up(std::span<const char* const> names) {
    PAGODA_RETURN_IF_ERROR(open(names));
    PAGODA_RETURN_IF_ERROR(find("nvmlInit_v2", init));
    PAGODA_RETURN_IF_ERROR(find("nvmlShutdown", shutdown));
    PAGODA_RETURN_IF_ERROR(find("nvmlDeviceGetHandleByPciBusId_v2", gpu_at));
    PAGODA_RETURN_IF_ERROR(find("nvmlEventSetCreate", create));
    PAGODA_RETURN_IF_ERROR(find("nvmlEventSetFree", destroy));
    PAGODA_RETURN_IF_ERROR(find("nvmlDeviceRegisterEvents", listen));
    PAGODA_RETURN_IF_ERROR(find("nvmlEventSetWait_v2", wait));
    return find("nvmlErrorString", name_of);
  }
  // Called after look_up().
  Status begin(const std::string& pci_address) {
    CHECK(init != nullptr && gpu_at != nullptr && create != nullptr && listen != nullptr &&
          name_of != nullptr);
    PAGODA_RETURN_IF_ERROR(check(init(), "nvmlInit_v2"));
    begun = true;
    Gpu gpu = nullptr;
    PAGODA_RETURN_IF_ERROR(check(gpu_at(pci_address.c_str(), &gpu), "nvmlDeviceGetHandleByPciBusId_v2"));
    PAGODA_RETURN_IF_ERROR(check(create(&events), "nvmlEventSetCreate"));
    return check(listen(gpu, kXidCriticalError, events), "nvmlDeviceRegisterEvents");
  }
  Status check(int error, const char* call) const {
    return error == kNvmlSuccess ? ok_status() : unavailable(concat(call, ": ", name_of(error)));
  }
};

Result<std::unique_ptr<XidWatch>> XidWatch::start(const std::string& pci_address,
                                                  std::function<void(Status)> lost,
                                                  std::span<const char* const> names) {
  auto library = std::make_unique<Library>();
  PAGODA_RETURN_IF_ERROR(library->look_up(names.empty() ? std::span<const char* const>(kNvmlNames) : names));
  PAGODA_RETURN_IF_ERROR(library->begin(pci_address));
  return std::unique_ptr<XidWatch>(new XidWatch(std::move(library), pci_address, std::move(lost)));
}

XidWatch::XidWatch(std::unique_ptr<Library> library, std::string gpu, std::function<void(Status)> lost)
    : library_(std::move(library)),
      gpu_(std::move(gpu)),
      lost_(std::move(lost)),
      thread_([this](const std::stop_token& stop) { wait(stop); }) {}

XidWatch::~XidWatch() = default;

void XidWatch::wait(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Event event = {};
    const int error = library_->wait(library_->events, &event, kWaitMs);
    if (error == kTimeout) continue;
    if (error == kGpuIsLost) return lost_(unavailable(concat("the GPU at ", gpu_, " is lost")));
    if (error != kNvmlSuccess)
      return log_warning("device", concat("Xid errors are not watched any more: ", library_->name_of(error)));
    if (event.type != kXidCriticalError) continue;
    if (const char* const what = fatal_xid(event.data))
      return lost_(unavailable(concat("Xid ", event.data, " of the GPU at ", gpu_, ": ", what)));
    log_warning("device", concat("the driver reports Xid ", event.data, " of the GPU at ", gpu_));
  }
}

}  // namespace pagoda::device
