#include "device/emulated/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/strings.h"

namespace pagoda::device::emulated {

std::string describe_access(AccessKind kind, std::size_t size) {
  const char* verb = kind == AccessKind::read ? "reads " : kind == AccessKind::write ? "writes " : "updates ";
  return concat(verb, size, " bytes");
}

Result<DeviceMemory> DeviceMemory::create(std::size_t capacity, std::size_t granule) {
  DeviceMemory memory;
  memory.capacity_ = capacity;
  // Addresses are free: reserve enough, since freed ones are never given out again.
  memory.address_bytes_ = std::max<std::size_t>(8 * capacity, std::size_t{1} << 30);
  void* data =
      ::mmap(nullptr, memory.address_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return resource_exhausted("no address space for an emulated device");
  memory.data_ = static_cast<std::byte*>(data);
  memory.mutex_ = std::make_unique<std::mutex>();
  memory.space_ = std::make_unique<VirtualSpace>(granule);
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      capacity_(other.capacity_),
      used_(other.used_),
      address_bytes_(other.address_bytes_),
      next_(other.next_),
      open_(other.open_),
      mutex_(std::move(other.mutex_)),
      space_(std::move(other.space_)),
      allocations_(std::move(other.allocations_)) {}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) ::munmap(data_, address_bytes_);
}

void DeviceMemory::protect(bool open) {
  open_ = open;
  space_->protect(open);
  if (next_ == 0) return;
  CHECK(::mprotect(data_, next_, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
}

std::size_t DeviceMemory::free_bytes() const {
  const std::lock_guard lock(*mutex_);
  return capacity_ - used_ - space_->physical_bytes();
}

Result<std::byte*> DeviceMemory::allocate(std::size_t bytes, std::string_view name) {
  const std::size_t whole = (bytes + 4095) / 4096 * 4096;
  if (bytes == 0) return invalid_argument("an allocation of 0 bytes");
  if (bytes > free_bytes())
    return resource_exhausted(concat("the emulated device has ", free_bytes(), " bytes free of ", capacity_,
                                     ": ", bytes, " for ", name, " do not fit"));
  if (whole + kGuard > address_bytes_ - next_)
    return resource_exhausted("the emulated device has no addresses left that were never used");
  const std::size_t offset = next_ + kGuard / 2;
  next_ += whole + kGuard;
  CHECK(::mprotect(data_ + offset, whole, PROT_READ | PROT_WRITE) == 0);
  std::memset(data_ + offset, 0xFF, bytes);
  if (!open_) CHECK(::mprotect(data_ + offset, whole, PROT_NONE) == 0);
  allocations_.push_back(
      {.name = std::string(name), .offset = offset, .bytes = bytes, .shadow = AccessShadow(bytes)});
  used_ += bytes;
  return data_ + offset;
}

Status DeviceMemory::free(std::byte* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const Allocation* const found = allocates(address) ? find(address) : nullptr;
  if (found == nullptr || found->offset != address - base())
    return internal_error("free() of an address that no allocation has");
  if (found->freed) return internal_error(concat("double free of '", found->name, "'"));
  Allocation& allocation = allocations_[last_found_];
  allocation.freed = true;
  allocation.shadow = AccessShadow(0);
  ::madvise(data_ + allocation.offset, (allocation.bytes + 4095) / 4096 * 4096, MADV_DONTNEED);
  used_ -= allocation.bytes;
  return ok_status();
}

std::size_t DeviceMemory::bytes_at(const std::byte* memory) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const Allocation* const found = allocates(address) ? find(address) : nullptr;
  return found == nullptr || found->offset != address - base() ? 0 : found->bytes;
}

const DeviceMemory::Allocation* DeviceMemory::find(std::uintptr_t address) const {
  const std::size_t offset = address - base();
  const auto holds = [&](std::size_t i) {
    return allocations_[i].offset <= offset &&
           (i + 1 == allocations_.size() || offset < allocations_[i + 1].offset);
  };
  if (last_found_ < allocations_.size() && holds(last_found_)) return &allocations_[last_found_];
  const auto after = std::upper_bound(allocations_.begin(), allocations_.end(), offset,
                                      [](std::size_t o, const Allocation& a) { return o < a.offset; });
  if (after == allocations_.begin()) return nullptr;
  last_found_ = static_cast<std::size_t>(after - allocations_.begin()) - 1;
  return &allocations_[last_found_];
}

std::string DeviceMemory::fault(const Allocation* near, std::uintptr_t address, std::size_t size) const {
  if (near == nullptr) return "in front of all allocations";
  const std::size_t at = address - base() - near->offset;
  if (near->freed) return concat("of '", near->name, "', which is freed");
  if (at + size > near->bytes)
    return concat("at offset ", at, " of '", near->name, "', which has ", near->bytes, " bytes");
  return {};
}

std::string DeviceMemory::access(std::uintptr_t address, std::size_t size, const AccessStamp& now,
                                 const AccessShadow::IsKnown& known) {
  if (!allocates(address)) return space_->access(address, size, now);
  const Allocation* const found = find(address);
  std::string wrong = fault(found, address, size);
  if (!wrong.empty()) return concat(describe_access(now.kind, size), " ", wrong);
  Allocation& allocation = allocations_[last_found_];
  const std::size_t at = address - base() - allocation.offset;
  if (now.kind != AccessKind::read) allocation.written = true;
  const auto race = allocation.shadow.note(at, size, now, known);
  if (!race) return {};
  return concat(describe_access(now.kind, size), " at offset ", at, " of '", allocation.name,
                "' in a race with thread ", race->thread, " of block ", race->block, ", which ",
                race->kind == AccessKind::read ? "reads" : "writes", " them");
}

bool DeviceMemory::is_constant(std::uintptr_t address) const {
  const Allocation* const found = allocates(address) ? find(address) : nullptr;
  return found != nullptr && !found->written;
}

std::string DeviceMemory::range(const std::byte* from, std::size_t size) const {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  if (!allocates(address)) return space_->range(from, size);
  return fault(find(address), address, size);
}

}  // namespace pagoda::device::emulated
