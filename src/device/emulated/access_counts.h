#pragma once
// AccessCounts: what a kernel's loads and stores cost a GPU's memories, warp by warp: shared memory has 32
// banks of four bytes, and an access whose lanes want several words of one bank takes a wavefront for each;
// global memory is moved in sectors of 32 bytes. Both are held against the least that the same bytes take.
// An access of a warp is what its lanes do at one instruction of the host's code, the n-th time that each
// comes there between two barriers: where the host's compiler splits or joins accesses in another way than
// nvcc, so does the count. Threads: one. Owner: BlockRunner, if EmulatedOptions asks for it.
// Source: CUDA C++ Programming Guide, "Shared Memory"; Best Practices Guide, "Coalesced Access".
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

  // A lane touches `size` bytes from `address` on (of shared memory: an offset) at the instruction `site`.
  void note(std::uint32_t warp, std::uint32_t lane, const void* site, Memory memory, std::uintptr_t address,
            std::size_t size);
  // The lanes of a warp have met: what they touched so far is counted as the kernel's.
  void meet(std::uint32_t warp, const std::string& kernel);

  const std::map<std::string, Counts>& of_kernels() const { return counts_; }

 private:
  struct Access {
    Memory memory = Memory::shared;
    std::size_t size = 0;
    std::array<std::uintptr_t, kWarp> address = {};
    std::uint32_t lanes = 0;  // a bit for each that takes part
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
