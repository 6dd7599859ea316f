#include "device/emulated/window_mappings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/strings.h"

namespace pagoda::device::emulated {
namespace {

constexpr std::uint32_t kKind = 0x656d7531;  // marks the handle of an emulated device
struct Handle {
  std::uint32_t kind = kKind;
  std::int32_t process = 0, file = -1;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(Handle) <= sizeof(WindowHandle));

Status failed(std::string_view what) {
  return unavailable(concat(what, " of an emulated device: ", std::strerror(errno)));
}

}  // namespace

WindowMappings::~WindowMappings() {
  for (const Mapping& mapping : mappings_) {
    ::munmap(mapping.memory, mapping.bytes);
    if (mapping.file >= 0) ::close(mapping.file);
  }
}

Result<std::byte*> WindowMappings::map(int file, std::size_t bytes, bool own) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return failed("a window");
  mappings_.push_back({static_cast<std::byte*>(memory), bytes, own ? file : -1});
  return static_cast<std::byte*>(memory);
}

Result<Window> WindowMappings::create(std::size_t bytes) {
  const int file = ::memfd_create("pagoda-window", MFD_CLOEXEC);
  if (file < 0) return failed("a window");
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    const Status status = failed("a window");
    ::close(file);
    return status;
  }
  const auto memory = map(file, bytes, true);
  if (!memory) {
    ::close(file);
    return memory.error();
  }
  std::memset(*memory, 0xFF, bytes);
  own_bytes_ += bytes;
  const Handle own = {.process = ::getpid(), .file = file, .bytes = bytes};
  Window window = {.memory = *memory, .handle = {}};
  std::memcpy(window.handle.bytes.data(), &own, sizeof(own));
  return window;
}

Result<std::byte*> WindowMappings::open(const WindowHandle& handle) {
  Handle other;
  std::memcpy(&other, handle.bytes.data(), sizeof(other));
  if (other.kind != kKind) return unavailable("a window that is no emulated device's");
  const std::string name = concat("/proc/", other.process, "/fd/", other.file);
  const int file = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return failed("another rank's window");
  auto memory = map(file, other.bytes, false);
  ::close(file);
  return memory;
}

const WindowMappings::Mapping* WindowMappings::find(std::uintptr_t address) const {
  constexpr std::size_t kPage = 4096;  // a fault just beyond a window's end belongs to the window
  for (const Mapping& mapping : mappings_)
    if (address - reinterpret_cast<std::uintptr_t>(mapping.memory) <
        (mapping.bytes + kPage - 1) / kPage * kPage)
      return &mapping;
  return nullptr;
}

std::string WindowMappings::fault(std::uintptr_t address, std::size_t size) const {
  const Mapping& mapping = *find(address);
  const std::size_t at = address - reinterpret_cast<std::uintptr_t>(mapping.memory);
  if (at <= mapping.bytes && size <= mapping.bytes - at) return {};
  return concat("at offset ", at, " of a window, which has ", mapping.bytes, " bytes");
}

}  // namespace pagoda::device::emulated
