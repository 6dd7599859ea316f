// Functions that the compiler calls at every load and store of an emulated kernel. Kernel sources are
// compiled with -fsanitize=thread, which calls a function for each access; those functions are defined here
// instead of in a library, so that the sources stay plain CUDA C++. A build that itself uses
// -fsanitize=thread already defines these names: there, kernels run unchecked (../flags.cmake). This file
// is compiled without hooks.
#ifndef PAGODA_DEVICE_UNCHECKED
#include "device/emulated/block_runner.h"

using pagoda::device::emulated::AccessKind;
using pagoda::device::emulated::BlockRunner;

namespace {

void note(const void* address, std::size_t size, AccessKind kind, const void* site,
          std::size_t alignment = 1) {
  BlockRunner::on_access(reinterpret_cast<std::uintptr_t>(address), size, kind, site, alignment);
}

// The alignment that the compiler relies on when it calls a hook for this many bytes. Unaligned accesses need
// less: they are several accesses in one.
constexpr std::size_t alignment_of(std::size_t size) { return size < 8 ? size : 8; }

}  // namespace

// The instruction that calls the hook.
#define SITE __builtin_return_address(0)
#define PAGODA_HOOKS(size)                                                                              \
  void __tsan_read##size(void* p) { note(p, size, AccessKind::read, SITE, alignment_of(size)); }        \
  void __tsan_write##size(void* p) { note(p, size, AccessKind::write, SITE, alignment_of(size)); }      \
  void __tsan_read_write##size(void* p) { note(p, size, AccessKind::write, SITE, alignment_of(size)); } \
  void __tsan_unaligned_read##size(void* p) { note(p, size, AccessKind::read, SITE); }                  \
  void __tsan_unaligned_write##size(void* p) { note(p, size, AccessKind::write, SITE); }                \
  void __tsan_unaligned_read_write##size(void* p) { note(p, size, AccessKind::write, SITE); }

#pragma GCC diagnostic ignored "-Wreserved-identifier"
extern "C" {
PAGODA_HOOKS(1)
PAGODA_HOOKS(2)
PAGODA_HOOKS(4)
PAGODA_HOOKS(8)
PAGODA_HOOKS(16)
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, unsigned long size) { note(p, size, AccessKind::read, SITE); }
void __tsan_write_range(void* p, unsigned long size) { note(p, size, AccessKind::write, SITE); }
void* __tsan_memcpy(void* to, const void* from, unsigned long size) {
  note(from, size, AccessKind::read, SITE);
  note(to, size, AccessKind::write, static_cast<const char*>(SITE) + 1);  // another key
  return __builtin_memcpy(to, from, size);
}
void* __tsan_memmove(void* to, const void* from, unsigned long size) {
  note(from, size, AccessKind::read, SITE);
  note(to, size, AccessKind::write, static_cast<const char*>(SITE) + 1);  // another key
  return __builtin_memmove(to, from, size);
}
void* __tsan_memset(void* to, int value, unsigned long size) {
  note(to, size, AccessKind::write, SITE);
  return __builtin_memset(to, value, size);
}
}
#endif
