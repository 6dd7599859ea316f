#include "device/emulated/fiber.h"

#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

#include <array>
#include <span>
#include <vector>

#include "base/check.h"

#if defined(__x86_64__)
// Saves the callee-saved state on the old stack, and continues on the new one. ucontext would query the
// signal mask from the system each time.
extern "C" void pagoda_switch_stacks(void** save, void* load);
asm(R"(
.text
.p2align 4
.hidden pagoda_switch_stacks
.globl pagoda_switch_stacks
.type pagoda_switch_stacks, @function
pagoda_switch_stacks:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size pagoda_switch_stacks, .-pagoda_switch_stacks
)");
#endif

namespace pagoda::device::emulated {
namespace {

// The first call of a fiber. There is no portable way to pass arguments to a new stack.
struct Start {
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
};
thread_local Start starting;

// AddressSanitizer keeps the marks of frames that never returned: those of an abandoned fiber, and the last
// ones of each fiber. A reused stack must have none.
void forget_frames(std::span<std::byte> stack) { ASAN_UNPOISON_MEMORY_REGION(stack.data(), stack.size()); }

[[noreturn]] void begin() {
  const Start start = starting;
  start.body(start.argument);
  check_failed("a fiber does not return", __FILE_NAME__, __LINE__);
}

}  // namespace

struct FiberStacks::Contexts {
#if defined(__x86_64__)
  std::vector<void*> fibers;
  void* caller = nullptr;
#else
  std::vector<ucontext_t> fibers;
  ucontext_t caller;
#endif
  std::vector<Start> starts;  // body: null once it has begun
};

FiberStacks::FiberStacks(std::size_t max_fibers)
    : max_fibers_(max_fibers), contexts_(std::make_unique<Contexts>()) {
  void* memory = ::mmap(nullptr, max_fibers * kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  stacks_ = static_cast<std::byte*>(memory);
  contexts_->fibers.resize(max_fibers);
  contexts_->starts.resize(max_fibers);
}

FiberStacks::~FiberStacks() {
  forget_frames({stacks_, max_fibers_ * kStackBytes});
  ::munmap(stacks_, max_fibers_ * kStackBytes);
}

void FiberStacks::prepare(std::size_t index, void (*body)(void*), void* argument) {
  CHECK(index < max_fibers_);
  contexts_->starts[index] = {body, argument};
  forget_frames({stack(index), kStackBytes});
#if defined(__x86_64__)
  // As pagoda_switch_stacks leaves a stack: six registers, then the return address. There, as after every
  // call, the stack pointer is 8 less than a multiple of 16.
  auto* top = reinterpret_cast<void**>(stack(index) + kStackBytes) - 1;
  *--top = reinterpret_cast<void*>(&begin);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  contexts_->fibers[index] = top;
#else
  ucontext_t& context = contexts_->fibers[index];
  ::getcontext(&context);
  context.uc_stack = {.ss_sp = stack(index), .ss_flags = 0, .ss_size = kStackBytes};
  context.uc_link = nullptr;
  ::makecontext(&context, &begin, 0);
#endif
}

void FiberStacks::enter(std::size_t index) {
  running_ = index;
  running_stack_ = reinterpret_cast<std::uintptr_t>(stack(index));
  if (contexts_->starts[index].body != nullptr) {
    starting = contexts_->starts[index];
    contexts_->starts[index] = {};
  }
#if defined(__x86_64__)
  pagoda_switch_stacks(&contexts_->caller, contexts_->fibers[index]);
#else
  ::swapcontext(&contexts_->caller, &contexts_->fibers[index]);
#endif
  running_stack_ = 0;
}

void FiberStacks::leave() {
#if defined(__x86_64__)
  pagoda_switch_stacks(&contexts_->fibers[running_], contexts_->caller);
#else
  ::swapcontext(&contexts_->fibers[running_], &contexts_->caller);
#endif
}

}  // namespace pagoda::device::emulated
