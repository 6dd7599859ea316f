#include "device/cuda/driver_memory.h"

#include "base/strings.h"

namespace pagoda::device {
namespace {

constexpr int kOutOfMemory = 2;

unsigned long long address_of(const std::byte* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

}  // namespace

Status driver_answer(int result, const char* call) {
  if (result == 0) return ok_status();
  const std::string what = concat(call, ": error ", result, " of the driver");
  return result == kOutOfMemory ? resource_exhausted(what) : invalid_argument(what);
}

Result<std::unique_ptr<DriverMemory>> DriverMemory::create(const DriverLookUp& look_up, std::int32_t device) {
  auto memory = std::make_unique<DriverMemory>();
  Calls& calls = memory->calls_;
  const auto find = [&](const char* name, auto& call) -> Status {
    void* const found = look_up(name);
    if (found == nullptr) return unavailable(concat("the driver has no ", name));
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(found);
    return ok_status();
  };
  PAGODA_RETURN_IF_ERROR(find("cuMemGetAllocationGranularity", calls.granularity));
  PAGODA_RETURN_IF_ERROR(find("cuMemAddressReserve", calls.reserve));
  PAGODA_RETURN_IF_ERROR(find("cuMemAddressFree", calls.release));
  PAGODA_RETURN_IF_ERROR(find("cuMemCreate", calls.create));
  PAGODA_RETURN_IF_ERROR(find("cuMemRelease", calls.destroy));
  PAGODA_RETURN_IF_ERROR(find("cuMemMap", calls.map));
  PAGODA_RETURN_IF_ERROR(find("cuMemSetAccess", calls.set_access));
  PAGODA_RETURN_IF_ERROR(find("cuMemUnmap", calls.unmap));
  memory->allocation_.location.id = device;
  PAGODA_RETURN_IF_ERROR(driver_answer(calls.granularity(&memory->granule_, &memory->allocation_, 0),
                                       "cuMemGetAllocationGranularity"));
  if (memory->granule_ == 0) return internal_error("the driver says that it maps pieces of 0 bytes");
  return memory;
}

Result<std::byte*> DriverMemory::reserve(std::size_t bytes) {
  Address address = 0;
  PAGODA_RETURN_IF_ERROR(driver_answer(calls_.reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve"));
  auto* const addresses = reinterpret_cast<std::byte*>(address);
  reserved_.emplace(addresses, bytes);
  return addresses;
}

Status DriverMemory::release(std::byte* addresses) {
  const auto found = reserved_.find(addresses);
  if (found == reserved_.end())
    return invalid_argument("release() of an address that reserve() did not give");
  const std::size_t bytes = found->second;
  reserved_.erase(found);
  return driver_answer(calls_.release(address_of(addresses), bytes), "cuMemAddressFree");
}

Result<PhysicalId> DriverMemory::create_physical(std::size_t bytes) {
  Physical physical = {.bytes = bytes};
  PAGODA_RETURN_IF_ERROR(
      driver_answer(calls_.create(&physical.handle, bytes, &allocation_, 0), "cuMemCreate"));
  const std::lock_guard lock(mutex_);
  physical_.push_back(physical);
  return static_cast<PhysicalId>(physical_.size() - 1);
}

Status DriverMemory::destroy_physical(PhysicalId memory) {
  const std::lock_guard lock(mutex_);
  return driver_answer(calls_.destroy(physical_[static_cast<std::size_t>(memory)].handle), "cuMemRelease");
}

Status DriverMemory::map(std::byte* address, PhysicalId memory) {
  Physical physical;
  {
    const std::lock_guard lock(mutex_);
    physical = physical_[static_cast<std::size_t>(memory)];
  }
  return driver_answer(calls_.map(address_of(address), physical.bytes, 0, physical.handle, 0), "cuMemMap");
}

Status DriverMemory::set_access(std::byte* address, std::size_t bytes) {
  const DriverAccess access = {.location = allocation_.location};
  return driver_answer(calls_.set_access(address_of(address), bytes, &access, 1), "cuMemSetAccess");
}

Status DriverMemory::unmap(std::byte* address, std::size_t bytes) {
  return driver_answer(calls_.unmap(address_of(address), bytes), "cuMemUnmap");
}

}  // namespace pagoda::device
