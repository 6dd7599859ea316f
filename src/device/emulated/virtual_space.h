#pragma once
// VirtualSpace: reserved addresses of an emulated device, and the physical memory mapped there, as in the
// driver's cuMem* functions, but stricter: what a driver may accept is an error here.
//     reserve -> map -> set_access -> (kernels and copies) -> unmap -> release
// Physical memory may be mapped at several addresses, which all refer to the same bytes, also for races. It
// is filled with 0xFF when created. Errors: invalid_argument, with what is wrong; nothing has changed then.
// An access to addresses that are not mapped, or have no access set, is a fault of the accessing code.
// Threads: DeviceMemory's lock. Owner: DeviceMemory.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "device/emulated/access_shadow.h"

namespace pagoda::device::emulated {

class VirtualSpace {
 public:
  // `granule`: all sizes and addresses are multiples of it; it is a multiple of the system's page size.
  explicit VirtualSpace(std::size_t granule) : granule_(granule) {}
  VirtualSpace(const VirtualSpace&) = delete;
  VirtualSpace& operator=(const VirtualSpace&) = delete;
  ~VirtualSpace();

  std::size_t granule() const { return granule_; }
  std::size_t physical_bytes() const { return physical_bytes_; }

  Result<std::byte*> reserve(std::size_t bytes);
  Status release(std::byte* address);
  Result<PhysicalId> create(std::size_t bytes);
  Status destroy(PhysicalId memory);
  Status map(std::byte* address, PhysicalId memory);
  Status set_access(std::byte* address, std::size_t bytes);
  Status unmap(std::byte* address, std::size_t bytes);

  // Makes mapped memory accessible to the process, or not.
  void protect(bool open);

  bool contains(std::uintptr_t address) const { return find(address) != nullptr; }
  // The size of the reservation that begins there; 0 if there is none.
  std::size_t bytes_at(const std::byte* address) const {
    const Reservation* const space = find(reinterpret_cast<std::uintptr_t>(address));
    return space == nullptr ? 0 : space->bytes;
  }
  // As in DeviceMemory.
  std::string access(std::uintptr_t address, std::size_t size, const AccessStamp& now);
  std::string range(const std::byte* from, std::size_t size) const;

 private:
  struct Physical {
    std::size_t offset = 0, bytes = 0;  // in the file
    int shown = 0;                      // number of mappings
    AccessShadow shadow;
  };
  struct Mapping {
    std::int32_t memory = 0;
    std::size_t bytes = 0;
    bool accessible = false;
  };
  struct Reservation {
    std::uintptr_t base = 0;
    std::size_t bytes = 0;
    std::map<std::size_t, Mapping> mappings;  // by offset
  };
  using Found = std::map<std::size_t, Mapping>::const_iterator;

  const Reservation* find(std::uintptr_t address) const;
  Reservation* find(const std::byte* address) {
    return const_cast<Reservation*>(
        static_cast<const VirtualSpace*>(this)->find(reinterpret_cast<std::uintptr_t>(address)));
  }
  // The mappings that fill the whole range, or what is wrong with it.
  Result<std::vector<std::size_t>> whole_mappings(const Reservation* space, const std::byte* address,
                                                  std::size_t bytes, const char* what) const;
  // The mapping that holds an address of the space; end() if there is none.
  static Found holding(const Reservation& space, std::size_t offset);

  const std::size_t granule_;
  int file_ = -1;
  std::size_t file_bytes_ = 0, physical_bytes_ = 0;
  bool open_ = false;
  std::vector<Reservation> spaces_;  // few
  std::map<std::int32_t, Physical> physical_;
  std::int32_t next_ = 0;
};

}  // namespace pagoda::device::emulated
