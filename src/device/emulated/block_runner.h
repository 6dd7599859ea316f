#pragma once
// BlockRunner: runs a launch on the emulated device, block after block, a block's threads as fibers that give
// control back at barriers. Every load and store of the kernel comes here (access_hooks.cc), and is held
// against who owns the memory and who else touches it.
// Found: what lies outside of an allocation, of the block's shared memory and of the thread's own stack;
// races; barriers that not all threads of the block, or of the warp, reach; what an asynchronous copy may
// still write. Such a copy is done when its thread waits for it, as late as it may be. The first fault ends
// the launch. Stricter than CUDA: warps are whole, their masks full; a thread that has ended is missed at a
// barrier. Threads: one; a launch runs on the caller's. Owner: EmulatedDevice.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/emulated/access_counts.h"
#include "device/emulated/access_shadow.h"
#include "device/emulated/device_memory.h"
#include "device/emulated/fiber.h"

namespace pagoda::device::emulated {

// The type of an emulated Kernel::entry.
using KernelEntry = void (*)(const void* args);

class BlockRunner {
 public:
  // `counts`: of what accesses cost, or null.
  BlockRunner(DeviceMemory& memory, AccessCounts* counts);

  // `order` chooses in which order threads run between barriers, and blocks. Empty, or the fault.
  std::string run(const Kernel& kernel, const LaunchShape& shape, std::span<const std::byte> args,
                  std::uint64_t order);

  // For kernels (cuda_on_host.h), on the thread that runs: which one that is, ...
  static BlockRunner& running();
  Dim3 thread_index() const;
  Dim3 block_index() const { return block_; }
  const LaunchShape& shape() const { return *shape_; }
  std::byte* shared() { return shared_.data(); }
  // ... barriers, ...
  void block_barrier();
  std::uint32_t block_count(bool vote);  // a barrier that says how many threads brought true
  // ... of a warp, where each lane brings a value and gets those of all.
  using Lanes = std::array<std::uint64_t, kWarp>;
  const Lanes& exchange(std::uint32_t mask, std::uint64_t value);
  // ... of several words a lane at once: a line of lanes for each of `words`, at most kWords, ...
  static constexpr std::size_t kWords = 4;
  using WordsOfLanes = std::array<Lanes, kWords>;
  const WordsOfLanes& exchange_words(std::uint32_t mask, std::span<const std::uint64_t> words);
  std::uint32_t lane() const { return current_ % kWarp; }
  // ... atomics, and reads and writes of what is no plain access, noted by this before they are done, by the
  // kernel's instruction `site`, ...
  void note(const void* address, std::size_t size, AccessKind kind, const void* site) {
    access(reinterpret_cast<std::uintptr_t>(address), size, kind, site);
  }
  // ... and asynchronous copies of kCopyBytes into shared memory, of which none but the first `taken` bytes
  // are read and the others are zero. Until its thread has waited, nobody may touch what a copy writes.
  static constexpr std::size_t kCopyBytes = 16;
  void start_copy(void* to, const void* from, std::size_t taken, const void* site);
  void commit_copies();
  void wait_for_copies(std::size_t groups_left);

  // Ends the launch with this fault of the thread that runs.
  [[noreturn]] void refuse(const char* what);

  // Called by the compiler's hooks. Does nothing while no kernel runs.
  static void on_access(std::uintptr_t address, std::size_t size, AccessKind kind, const void* site);

 private:
  enum class State : std::uint8_t { runs, at_block_barrier, at_warp_barrier, ended };
  struct Warp {
    std::uint32_t phase = 0;
    std::array<WordsOfLanes, 2> values;  // this phase's and the one's before, which some lanes still read
  };
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t taken;
  };
  struct Copies {                           // copies of a thread
    std::vector<std::vector<Copy>> groups;  // committed, the oldest first
    std::vector<Copy> open;
  };

  static void run_thread(void* self);
  void run_block();
  bool run_all();  // false: nothing could run
  bool release();  // false: no barrier is complete
  std::string stuck() const;
  void finish(const Copy& copy);
  std::size_t place_of(const Copy& copy) const;
  std::string under_way(std::size_t in_shared, std::size_t size) const;
  // `site`: null: not counted.
  void access(std::uintptr_t address, std::size_t size, AccessKind kind, const void* site);
  std::string fault_of(std::uintptr_t address, std::size_t size, AccessKind kind);
  void fail(const std::string& what);  // the thread has to stop() then, with nothing left to destroy
  [[noreturn]] void stop();
  void pause(State state);
  std::string where() const;

  DeviceMemory& memory_;
  AccessCounts* counts_;
  FiberStacks stacks_;
  std::vector<std::byte> shared_;
  AccessShadow shared_shadow_;
  std::vector<State> states_;
  std::vector<Warp> warps_;
  std::vector<Copies> copies_;
  std::vector<std::uint16_t> copied_by_;  // for each kCopyBytes of shared memory: 1 + the thread, or 0
  bool has_groups_ = false;               // something is in copies_
  std::size_t num_copies_ = 0;            // under way

  const Kernel* kernel_ = nullptr;
  const LaunchShape* shape_ = nullptr;
  std::span<const std::byte> args_;
  std::uint32_t launch_ = 0, num_threads_ = 0, block_number_ = 0, block_phase_ = 0, current_ = 0,
                blocks_run_ = 0;
  std::array<std::uint32_t, 2> votes_ =
      {};  // those of this phase, and of the one before, which is still read
  bool backwards_ = false;
  Dim3 block_;
  std::string fault_;
};

}  // namespace pagoda::device::emulated
