#include "device/emulated/virtual_space.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/strings.h"
#include "device/emulated/device_memory.h"

namespace pagoda::device::emulated {
namespace {

constexpr int kNothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

Status refused(const char* call) {
  return resource_exhausted(concat("the emulated device: ", call, ": ", std::strerror(errno)));
}

}  // namespace

VirtualSpace::~VirtualSpace() {
  for (const Reservation& space : spaces_) ::munmap(reinterpret_cast<void*>(space.base), space.bytes);
  if (file_ >= 0) ::close(file_);
}

Result<std::byte*> VirtualSpace::reserve(std::size_t bytes) {
  if (bytes == 0 || bytes % granule_ != 0)
    return invalid_argument(
        concat("reserve() of ", bytes, " bytes, which is no multiple of the granule of ", granule_));
  // Reserves more, so that the space can begin at a multiple of the granule.
  void* const data = ::mmap(nullptr, bytes + granule_, PROT_NONE, kNothing, -1, 0);
  if (data == MAP_FAILED) return refused("reserve()");
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t base = (begin + granule_ - 1) / granule_ * granule_;
  if (base > begin) ::munmap(data, base - begin);
  ::munmap(reinterpret_cast<void*>(base + bytes), begin + granule_ - base);
  spaces_.push_back({.base = base, .bytes = bytes, .mappings = {}});
  return reinterpret_cast<std::byte*>(base);
}

Status VirtualSpace::release(std::byte* address) {
  const Reservation* const space = find(address);
  if (space == nullptr || space->base != reinterpret_cast<std::uintptr_t>(address))
    return invalid_argument("release() of an address that reserve() did not give");
  if (!space->mappings.empty()) return invalid_argument("release() of addresses where memory is mapped");
  ::munmap(address, space->bytes);
  spaces_.erase(spaces_.begin() + (space - spaces_.data()));
  return ok_status();
}

Result<PhysicalId> VirtualSpace::create(std::size_t bytes) {
  if (bytes == 0 || bytes % granule_ != 0)
    return invalid_argument(
        concat("physical memory of ", bytes, " bytes, which is no multiple of the granule of ", granule_));
  if (file_ < 0) file_ = ::memfd_create("pagoda-device", MFD_CLOEXEC);
  // Destroyed memory becomes a hole in the file and is never used again.
  if (file_ < 0 || ::ftruncate(file_, static_cast<off_t>(file_bytes_ + bytes)) != 0)
    return refused("physical memory");
  const std::vector<std::byte> nobody(granule_, std::byte{0xFF});
  for (std::size_t at = 0; at < bytes; at += granule_)
    if (::pwrite(file_, nobody.data(), granule_, static_cast<off_t>(file_bytes_ + at)) !=
        static_cast<ssize_t>(granule_))
      return refused("physical memory");
  physical_.emplace(next_, Physical{.offset = file_bytes_, .bytes = bytes, .shadow = AccessShadow(bytes)});
  file_bytes_ += bytes;
  physical_bytes_ += bytes;
  return PhysicalId{next_++};
}

Status VirtualSpace::destroy(PhysicalId memory) {
  const auto found = physical_.find(static_cast<std::int32_t>(memory));
  if (found == physical_.end()) return invalid_argument("destroy_physical() of memory that is none");
  const Physical& physical = found->second;
  if (physical.shown > 0) return invalid_argument("destroy_physical() of memory that is still mapped");
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(physical.offset),
              static_cast<off_t>(physical.bytes));
  physical_bytes_ -= physical.bytes;
  physical_.erase(found);
  return ok_status();
}

Status VirtualSpace::map(std::byte* address, PhysicalId memory) {
  Reservation* const space = find(address);
  const auto found = physical_.find(static_cast<std::int32_t>(memory));
  if (found == physical_.end()) return invalid_argument("map() of memory that is none");
  Physical& physical = found->second;
  if (space == nullptr) return invalid_argument("map() outside of reserved addresses");
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(address) - space->base;
  if (offset % granule_ != 0)
    return invalid_argument(
        concat("map() at offset ", offset, ", which is no multiple of the granule of ", granule_));
  if (physical.bytes > space->bytes - offset) return invalid_argument("map() beyond reserved addresses");
  const auto after = space->mappings.lower_bound(offset);
  if (holding(*space, offset) != space->mappings.end() ||
      (after != space->mappings.end() && after->first < offset + physical.bytes))
    return invalid_argument(concat("double map() at offset ", offset, ": memory is mapped there"));
  if (::mmap(address, physical.bytes, open_ ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED | MAP_FIXED,
             file_, static_cast<off_t>(physical.offset)) == MAP_FAILED)
    return refused("map()");
  ++physical.shown;
  space->mappings.emplace(offset,
                          Mapping{.memory = static_cast<std::int32_t>(memory), .bytes = physical.bytes});
  return ok_status();
}

Result<std::vector<std::size_t>> VirtualSpace::whole_mappings(const Reservation* space,
                                                              const std::byte* address, std::size_t bytes,
                                                              const char* what) const {
  if (space == nullptr) return invalid_argument(concat(what, " outside of reserved addresses"));
  std::vector<std::size_t> offsets;
  std::size_t offset = reinterpret_cast<std::uintptr_t>(address) - space->base;
  for (const std::size_t end = offset + bytes; offset < end;) {
    const auto found = space->mappings.find(offset);
    if (found == space->mappings.end())
      return invalid_argument(concat(what, " at offset ", offset, ", where no mapping begins"));
    if (found->second.bytes > end - offset) return invalid_argument(concat(what, " of half a mapping"));
    offsets.push_back(offset);
    offset += found->second.bytes;
  }
  return offsets;
}

Status VirtualSpace::set_access(std::byte* address, std::size_t bytes) {
  Reservation* const space = find(address);
  const auto offsets = whole_mappings(space, address, bytes, "set_access()");
  if (!offsets) return offsets.error();
  for (const std::size_t offset : *offsets) space->mappings.at(offset).accessible = true;
  return ok_status();
}

Status VirtualSpace::unmap(std::byte* address, std::size_t bytes) {
  Reservation* const space = find(address);
  const auto offsets = whole_mappings(space, address, bytes, "unmap()");
  if (!offsets) return offsets.error();
  if (::mmap(address, bytes, PROT_NONE, kNothing | MAP_FIXED, -1, 0) == MAP_FAILED) return refused("unmap()");
  for (const std::size_t offset : *offsets) {
    --physical_.at(space->mappings.at(offset).memory).shown;
    space->mappings.erase(offset);
  }
  return ok_status();
}

void VirtualSpace::protect(bool open) {
  open_ = open;
  const int protection = open ? PROT_READ | PROT_WRITE : PROT_NONE;
  for (const Reservation& space : spaces_) {
    // Adjacent mappings are handled in one call.
    for (auto at = space.mappings.begin(); at != space.mappings.end();) {
      const std::size_t begin = at->first;
      std::size_t end = begin;
      for (; at != space.mappings.end() && at->first == end; ++at) end += at->second.bytes;
      CHECK(::mprotect(reinterpret_cast<void*>(space.base + begin), end - begin, protection) == 0);
    }
  }
}

const VirtualSpace::Reservation* VirtualSpace::find(std::uintptr_t address) const {
  for (const Reservation& space : spaces_)
    if (address - space.base < space.bytes) return &space;
  return nullptr;
}

VirtualSpace::Found VirtualSpace::holding(const Reservation& space, std::size_t offset) {
  const auto after = space.mappings.upper_bound(offset);
  if (after == space.mappings.begin()) return space.mappings.end();
  const auto before = std::prev(after);
  return offset - before->first < before->second.bytes ? before : space.mappings.end();
}

std::string VirtualSpace::range(const std::byte* from, std::size_t size) const {
  const Reservation* const space = find(reinterpret_cast<std::uintptr_t>(from));
  if (space == nullptr) return "memory that is not the device's";
  std::size_t offset = reinterpret_cast<std::uintptr_t>(from) - space->base;
  if (size > space->bytes - offset) return "beyond reserved addresses";
  for (const std::size_t end = offset + size; offset < end;) {
    const Found found = holding(*space, offset);
    if (found == space->mappings.end())
      return concat("at offset ", offset, " of reserved addresses, where nothing is mapped");
    if (!found->second.accessible)
      return concat("at offset ", offset, " of reserved addresses, which are mapped without access");
    offset = found->first + found->second.bytes;
  }
  return {};
}

std::string VirtualSpace::access(std::uintptr_t address, std::size_t size, const AccessStamp& now) {
  if (std::string wrong = range(reinterpret_cast<const std::byte*>(address), size); !wrong.empty())
    return concat(describe_access(now.kind, size), " ", wrong);
  const Reservation& space = *find(address);
  for (std::size_t offset = address - space.base, end = offset + size; offset < end;) {
    const Found found = holding(space, offset);
    const std::size_t at = offset - found->first, count = std::min(end - offset, found->second.bytes - at);
    const auto race = physical_.at(found->second.memory).shadow.note(at, count, now);
    if (race)
      return concat(describe_access(now.kind, size), " at offset ", offset,
                    " of reserved addresses in a race with thread ", race->thread, " of block ", race->block,
                    ", which ", race->kind == AccessKind::read ? "reads" : "writes", " them");
    offset += count;
  }
  return {};
}

}  // namespace pagoda::device::emulated
