#pragma once
// Fiber: a stack that runs until it yields: a thread of an emulated block. A switch takes a few instructions
// on x86-64, and uses ucontext elsewhere. No exception leaves a fiber. A fiber that no longer runs is
// abandoned: nothing on its stack is destroyed. Threads: all fibers of a FiberStacks run on the thread that
// runs them.
#include <cstddef>
#include <cstdint>
#include <memory>

namespace pagoda::device::emulated {

class FiberStacks {
 public:
  static constexpr std::size_t kStackBytes = 64 * 1024;

  explicit FiberStacks(std::size_t max_fibers);
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  // Fiber `index` begins again in body(argument), which must not return: it calls leave() for the last time.
  void prepare(std::size_t index, void (*body)(void*), void* argument);
  // Runs the fiber until it calls leave().
  void enter(std::size_t index);
  void leave();

  // True if an address is on the stack of the running fiber.
  bool on_stack(std::uintptr_t address) const { return address - running_stack_ < kStackBytes; }

 private:
  struct Contexts;  // the implementation of a switch on this platform
  std::byte* stack(std::size_t index) const { return stacks_ + index * kStackBytes; }

  std::size_t max_fibers_;
  std::byte* stacks_ = nullptr;
  std::uintptr_t running_stack_ = 0;
  std::size_t running_ = 0;
  std::unique_ptr<Contexts> contexts_;
};

}  // namespace pagoda::device::emulated
