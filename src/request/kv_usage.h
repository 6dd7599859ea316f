#pragma once
// KvUsage: how the KV pool is used. Plain counts.
#include <cstdint>

namespace pagoda {

// The current use of every token slot of the pool (paper Fig. 2), and the slots saved by sharing (Fig. 15).
struct KvUsage {
  std::int64_t total_slots = 0;
  std::int64_t token_slots = 0;      // hold K/V of live sequences; a shared slot counts once
  std::int64_t reserved_slots = 0;   // allocated for future tokens that will use them
  std::int64_t internal_slots = 0;   // allocated and never used
  std::int64_t external_slots = 0;   // unusable gaps between allocations
  std::int64_t cached_slots = 0;     // content kept from finished sequences, evictable
  std::int64_t allocated_slots = 0;  // in the blocks in use
  std::int64_t blocks_in_use = 0;
  std::int64_t blocks_without_sharing = 0;  // blocks_in_use if no sequence shared blocks

  KvUsage& operator+=(const KvUsage& other) {
    total_slots += other.total_slots;
    token_slots += other.token_slots;
    reserved_slots += other.reserved_slots;
    internal_slots += other.internal_slots;
    external_slots += other.external_slots;
    cached_slots += other.cached_slots;
    allocated_slots += other.allocated_slots;
    blocks_in_use += other.blocks_in_use;
    blocks_without_sharing += other.blocks_without_sharing;
    return *this;
  }
};

}  // namespace pagoda
