#pragma once
// AccessCounts: the cost of a kernel's loads and stores in a GPU's memories, per warp. Shared memory has 32
// banks of four bytes; an access whose lanes need several words of one bank takes one wavefront for each.
// Global memory is transferred in sectors of 32 bytes. Both are compared with the minimum for the same bytes.
// A warp's access is the accesses of its lanes at one instruction of the host code, for the n-th time between
// two barriers. The count differs from a GPU's if the host's compiler splits or joins accesses differently
// than nvcc. Threads: one. Owner: BlockRunner, if EmulatedOptions requests it. Source: CUDA C++ Programming
// Guide, "Shared Memory"; Best Practices Guide, "Coalesced Access".
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/device.h"

namespace pagoda::device::emulated {

enum class Memory : std::uint8_t { shared, global };

class AccessCounts {
 public:
  struct Counts {
    std::int64_t wavefronts = 0, least_wavefronts = 0, sectors = 0, least_sectors = 0;
    friend bool operator==(const Counts&, const Counts&) = default;
  };

  // A lane accesses `size` bytes from `address` on (for shared memory: an offset) at the instruction `site`.
  void note(std::uint32_t warp, std::uint32_t lane, const void* site, Memory memory, std::uintptr_t address,
            std::size_t size);
  // The lanes of a warp have met: adds their accesses so far to the counts of the kernel.
  void meet(std::uint32_t warp, const std::string& kernel);

  const std::map<std::string, Counts>& of_kernels() const { return counts_; }

 private:
  struct Access {
    Memory memory = Memory::shared;
    std::size_t size = 0;
    std::array<std::uintptr_t, kWarp> address = {};
    std::uint32_t lanes = 0;  // a bit per participating lane
  };
  struct Site {
    std::array<std::uint32_t, kWarp> times = {};
    std::vector<Access> accesses;
  };

  static void add_shared(const Access& access, Counts& counts);
  static void add_global(const Access& access, Counts& counts);

  std::unordered_map<std::uint32_t, std::unordered_map<const void*, Site>> warps_;
  std::map<std::string, Counts> counts_;
};

}  // namespace pagoda::device::emulated
