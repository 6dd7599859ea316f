// A library with the CUDA driver functions that CudaPages calls, for pagoda_kv_test.cc. Device memory is
// backed by files, so that the test can read and write it as a kernel would. Stricter than a real driver:
// double maps, parts of a granule, access before cuMemSetAccess (a signal), releasing mapped memory and calls
// without a current context are errors. Counts objects that are not released, and can inject failures.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace {

constexpr std::size_t kGranule = 4096;
constexpr int kOk = 0, kInvalid = 1, kNoMemory = 2, kNoContext = 201;

struct Mapping {
  std::size_t bytes;
  unsigned long long handle;
};
struct Allocation {
  int file;
  std::size_t bytes;
  int mapped = 0;
};

std::mutex mutex;
std::string failing;
std::int64_t calls_before_failure = 0;
std::map<unsigned long long, std::size_t> spaces;  // reserved
std::map<unsigned long long, Mapping> mappings;
std::map<unsigned long long, Allocation> allocations;
unsigned long long next_handle = 1;
int contexts = 0, a_context = 0, events = 0;
std::int64_t waits = 0;
std::uint64_t last_ordered = 0;
thread_local void* current = nullptr;

// Result of a call that is rejected before it does anything.
int refused(const char* name) {
  if (current == nullptr) return kNoContext;
  if (failing != name || calls_before_failure-- > 0) return kOk;
  failing.clear();
  return kNoMemory;
}

bool in_space(unsigned long long address, std::size_t bytes) {
  auto after = spaces.upper_bound(address);
  if (after == spaces.begin()) return false;
  --after;
  return address + bytes <= after->first + after->second;
}

void* pointer(unsigned long long address) { return reinterpret_cast<void*>(address); }

int take_away(unsigned long long address, std::size_t bytes) {
  void* const got = mmap(pointer(address), bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return got != MAP_FAILED ? kOk : kInvalid;
}

}  // namespace

extern "C" {

// Makes the call of this name fail once, after `after` successful calls.
void fake_fail(const char* name, std::int64_t after) {
  const std::lock_guard lock(mutex);
  failing = name;
  calls_before_failure = after;
}
int fake_alive() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(spaces.size() + mappings.size() + allocations.size()) + contexts + events;
}
// The number of waits for the whole context, and the stream that was last ordered after the copies.
std::int64_t fake_waits() {
  const std::lock_guard lock(mutex);
  return waits;
}
std::uint64_t fake_ordered() {
  const std::lock_guard lock(mutex);
  return last_ordered;
}

int cuInit(unsigned flags) { return flags == 0 ? kOk : kInvalid; }
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? kOk : 101;  // invalid device
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  const std::lock_guard lock(mutex);
  ++contexts;
  *context = &a_context;
  return device == 0 ? kOk : kInvalid;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  const std::lock_guard lock(mutex);
  --contexts;
  return device == 0 ? kOk : kInvalid;
}
int cuCtxSetCurrent(void* context) {
  current = context;
  return context == &a_context ? kOk : kInvalid;
}

struct FakeAllocation {
  std::int32_t type, handle_types, location_type, location;
};
int cuMemGetAllocationGranularity(std::size_t* granule, const FakeAllocation* of, int minimum) {
  *granule = kGranule;
  return of->type == 1 && of->location_type == 1 && of->location == 0 && minimum == 0 ? kOk : kInvalid;
}
int cuMemAddressReserve(unsigned long long* address, std::size_t bytes, std::size_t, unsigned long long,
                        unsigned long long flags) {
  const std::lock_guard lock(mutex);
  if (const int status = refused("cuMemAddressReserve")) return status;
  if (bytes == 0 || bytes % kGranule != 0 || flags != 0) return kInvalid;
  void* const got = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return kNoMemory;
  *address = reinterpret_cast<std::uintptr_t>(got);
  spaces.emplace(*address, bytes);
  return kOk;
}
int cuMemAddressFree(unsigned long long address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto found = spaces.find(address);
  if (current == nullptr || found == spaces.end() || found->second != bytes) return kInvalid;
  const auto mapped = mappings.lower_bound(address);
  if (mapped != mappings.end() && mapped->first < address + bytes) return kInvalid;
  spaces.erase(found);
  return munmap(pointer(address), bytes) == 0 ? kOk : kInvalid;
}
int cuMemCreate(unsigned long long* handle, std::size_t bytes, const FakeAllocation* of,
                unsigned long long flags) {
  const std::lock_guard lock(mutex);
  if (const int status = refused("cuMemCreate")) return status;
  if (bytes == 0 || bytes % kGranule != 0 || of->type != 1 || of->location_type != 1 || flags != 0)
    return kInvalid;
  const int file = memfd_create("fake", 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return kNoMemory;
  *handle = next_handle++;
  allocations.emplace(*handle, Allocation{file, bytes});
  return kOk;
}
int cuMemRelease(unsigned long long handle) {
  const std::lock_guard lock(mutex);
  const auto found = allocations.find(handle);
  if (current == nullptr || found == allocations.end() || found->second.mapped != 0) return kInvalid;
  close(found->second.file);
  allocations.erase(found);
  return kOk;
}
int cuMemMap(unsigned long long address, std::size_t bytes, std::size_t offset, unsigned long long handle,
             unsigned long long flags) {
  const std::lock_guard lock(mutex);
  if (const int status = refused("cuMemMap")) return status;
  const auto memory = allocations.find(handle);
  if (memory == allocations.end() || memory->second.bytes != bytes || offset != 0 || flags != 0 ||
      !in_space(address, bytes))
    return kInvalid;
  const auto next = mappings.lower_bound(address);
  if (next != mappings.end() && next->first < address + bytes) return kInvalid;
  if (next != mappings.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address)
    return kInvalid;
  mappings.emplace(address, Mapping{bytes, handle});
  ++memory->second.mapped;
  return kOk;
}
struct FakeAccess {
  std::int32_t location_type, location, flags;
};
int cuMemSetAccess(unsigned long long address, std::size_t bytes, const FakeAccess* access,
                   std::size_t count) {
  const std::lock_guard lock(mutex);
  if (const int status = refused("cuMemSetAccess")) return status;
  const auto found = mappings.find(address);
  if (found == mappings.end() || found->second.bytes != bytes || count != 1 || access->location_type != 1 ||
      access->flags != 3)
    return kInvalid;
  void* const got = mmap(pointer(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                         allocations.at(found->second.handle).file, 0);
  return got != MAP_FAILED ? kOk : kInvalid;
}
int cuMemUnmap(unsigned long long address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  if (const int status = refused("cuMemUnmap")) return status;
  const auto found = mappings.find(address);
  if (found == mappings.end() || found->second.bytes != bytes) return kInvalid;
  --allocations.at(found->second.handle).mapped;
  mappings.erase(found);
  return take_away(address, bytes);
}
int cuMemcpyDtoD_v2(unsigned long long to, unsigned long long from, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex);
    if (const int status = refused("cuMemcpyDtoD")) return status;
  }
  __builtin_memcpy(pointer(to), pointer(from), bytes);
  return kOk;
}
int cuCtxSynchronize() {
  const std::lock_guard lock(mutex);
  if (const int status = refused("cuCtxSynchronize")) return status;
  ++waits;
  return kOk;
}
int cuEventCreate(void** event, unsigned flags) {
  const std::lock_guard lock(mutex);
  if (const int status = refused("cuEventCreate")) return status;
  ++events;
  *event = new std::uint64_t(0);
  return flags == 2 ? kOk : kInvalid;
}
int cuEventDestroy_v2(void* event) {
  const std::lock_guard lock(mutex);
  --events;
  delete static_cast<std::uint64_t*>(event);
  return kOk;
}
int cuEventRecord(void* event, void* stream) {
  const std::lock_guard lock(mutex);
  if (const int status = refused("cuEventRecord")) return status;
  *static_cast<std::uint64_t*>(event) = reinterpret_cast<std::uintptr_t>(stream);
  return kOk;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  const std::lock_guard lock(mutex);
  if (const int status = refused("cuStreamWaitEvent")) return status;
  if (*static_cast<std::uint64_t*>(event) != 1 || flags != 0) return kInvalid;  // the stream of the copies
  last_ordered = reinterpret_cast<std::uintptr_t>(stream);
  return kOk;
}
// For bench/gpu/kv_library, which reads and writes through the driver.
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
  __builtin_memcpy(pointer(to), from, bytes);
  return kOk;
}
int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t bytes) {
  __builtin_memcpy(to, pointer(from), bytes);
  return kOk;
}

}  // extern "C"
