#pragma once
// BuddyAllocator: hands out contiguous regions of blocks, as the memory managers before PagedAttention did. A
// region has 2^k blocks and starts at a multiple of 2^k; a larger free region is split in halves, and two
// free halves of the same parent are merged. Invariants: free regions and regions in use tile [0,
// num_blocks); two buddies are never both free. Source: Knuth, TAOCP 1, 2.5; as Orca's allocator:
// PagedAttention (SOSP'23) §6.1. Threads: none; owned by the engine thread.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace pagoda {

class BuddyAllocator {
 public:
  explicit BuddyAllocator(std::int32_t num_blocks);  // CHECKs > 0; need not be a power of two

  // Returns the first block of a region of region_size(count) blocks: the lowest among the smallest that fit.
  [[nodiscard]] std::optional<std::int32_t> allocate(std::int32_t count);
  void free(std::int32_t first);  // CHECKs that `first` came from allocate()

  // Size of a region for `count` blocks: the next power of two.
  static std::int32_t region_size(std::int32_t count);
  // Number of regions for `count` blocks when everything is free.
  std::int64_t regions_when_empty(std::int32_t count) const;

  std::int32_t num_blocks() const { return num_blocks_; }
  std::int32_t num_free() const { return num_free_; }
  void check_invariants() const;

 private:
  const std::int32_t num_blocks_;
  std::int32_t num_free_;
  std::vector<std::set<std::int32_t>> free_;     // by k: first blocks of free regions of 2^k
  std::map<std::int32_t, std::int32_t> in_use_;  // first block -> k
};

}  // namespace pagoda
