#pragma once
// SlotMap: the mapping of virtual blocks to physical pages (a block "shows" a page). Address space is
// reserved for num_slots sequences of maximum length. A slot belongs to one sequence at a time; it has a
// range of blocks for each KV group, and the ranges of slot s are numbered from s * num_ranges.
//     IDLE --acquire--> IN USE --release--> IDLE, its mapping kept (deferred reclamation) or dropped
// A mapping is a hint, like a cache entry; BlockPool knows the owner of a page. An idle slot may show pages
// of other sequences, and a page may be mapped ahead of need: neither is read through. FREE pages that are
// mapped are held back in the pool. Invariant: at most max_regions regions (vm.max_map_count). Source:
// vAttention (arXiv 2405.04437) §5. Threads: the engine thread. The model runner carries out changes.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv_cache/block_pool.h"
#include "request/page_ops.h"

namespace pagoda {

struct SlotMapConfig {
  std::int32_t num_slots = 0;        // > 0
  std::int32_t blocks_per_slot = 0;  // sum over all its ranges
  std::int64_t max_regions = 0;      // 0: no limit
  bool deferred_reclaim = true;
  bool map_ahead = true;
  // Blocks mapped beyond the need when a slot is taken; rows, in a range with several blocks per row.
  std::int32_t num_eager_blocks = 0;
  std::int32_t front_batch = 32;  // blocks before a window that are unmapped in one call
};

struct SlotMapCounts {
  std::int64_t mapped_blocks = 0;    // mapped when needed, in one or more calls
  std::int64_t ahead_blocks = 0;     // mapped ahead of need, eagerly or concurrently with a step
  std::int64_t reused_blocks = 0;    // needed and already mapped
  std::int64_t reclaimed_slots = 0;  // idle slots whose mapping was dropped to stay within max_regions
};

// The need of a sequence that wants a slot, in one range: it owns `pages` from block `first` on, and will
// soon need blocks up to `end`.
struct RangeNeed {
  std::int32_t first = 0;
  std::span<const BlockId> pages;
  std::int32_t end = 0;
};

class SlotMap {
 public:
  // Borrows pool. `lengths`: the lengths of a slot's ranges, blocks_per_slot in total; may be empty.
  SlotMap(const SlotMapConfig& config, BlockPool& pool, std::vector<std::int32_t> lengths);
  // A single range.
  SlotMap(const SlotMapConfig& config, BlockPool& pool)
      : SlotMap(config, pool, std::vector{config.blocks_per_slot}) {}

  // Returns the idle slot that best fits a sequence with these needs, one per range: most needed pages
  // already mapped, then fewest useless mappings, then idle for longest. nullopt if no slot is idle.
  std::optional<std::int32_t> acquire(std::span<const RangeNeed> needs);
  std::optional<std::int32_t> acquire(std::span<const BlockId> pages, std::int32_t num_blocks) {
    const RangeNeed need{.first = 0, .pages = pages, .end = num_blocks};
    return acquire(std::span(&need, 1));
  }
  void release(std::int32_t slot);

  // True if `changes` more blocks can be mapped within max_regions; drops unneeded mappings if necessary,
  // those of idle slots first.
  [[nodiscard]] bool make_space(std::int64_t changes);
  // Like make_space() without dropping, for mappings that are not needed yet.
  bool has_room(std::int64_t changes) const;

  // Maps the range's blocks from `first` on to `pages`.
  void show(std::int32_t range, std::int32_t first, std::span<const BlockId> pages);
  // The sequence no longer needs blocks from `end` on; they stay mapped.
  void shrink(std::int32_t range, std::int32_t end);
  // The sequence no longer needs blocks before `first`; they are unmapped once there are enough of them.
  void leave_front(std::int32_t range, std::int32_t first);
  // Maps up to num_eager_blocks * `per_row` free pages after block `end` - 1, as part of the step but mostly
  // in the same call.
  void show_eagerly(std::int32_t range, std::int32_t end, std::int32_t per_row = 1);
  // Maps free pages to the `count` blocks from `next` on, concurrently with the step.
  void show_ahead(std::int32_t range, std::int32_t next, std::int32_t count = 1);

  // Allocates the page for block `at` of `range` that requires the fewest mapping calls: the page already
  // mapped there, or the one after `previous`. nullopt if the pool is empty.
  std::optional<BlockId> allocate(std::int32_t range, std::int32_t at, BlockId previous);

  BlockId shown(std::int32_t range, std::int32_t at) const { return shown_[place(range, at)]; }
  BlockId block_id(std::int32_t range, std::int32_t at) const {
    return BlockId{static_cast<std::int32_t>(place(range, at))};
  }
  std::int32_t length(std::int32_t range) const { return at(range).length; }
  std::int32_t num_ranges() const { return static_cast<std::int32_t>(lengths_.size()); }  // per slot
  std::int32_t range_of(std::int32_t slot, std::size_t number) const {
    return slot * num_ranges() + static_cast<std::int32_t>(number);
  }
  const SlotMapConfig& config() const { return config_; }
  const SlotMapCounts& counts() const { return counts_; }
  std::int64_t num_regions() const { return 1 + num_borders_; }  // approximate, never too low
  std::int32_t num_idle() const { return static_cast<std::int32_t>(idle_.size()); }
  // Number of blocks up to the last mapped one.
  std::int32_t num_shown(std::int32_t range) const { return at(range).shown_end; }

  // Appends the changes recorded since the last call.
  void take(std::vector<PageMapping>& now, std::vector<PageMapping>& ahead);
  void check_invariants() const;  // O(slots * blocks)

 private:
  struct Range {
    std::int32_t begin = 0, length = 0;     // id of its first block, and its number of blocks
    std::int32_t front = 0, shown_end = 0;  // nothing is mapped before front and from shown_end on
    std::int32_t first = 0, end = 0;        // blocks that its sequence needs; empty if the slot is idle
  };
  const Range& at(std::int32_t range) const { return ranges_[static_cast<std::size_t>(range)]; }
  Range& at(std::int32_t range) { return ranges_[static_cast<std::size_t>(range)]; }
  std::size_t place(std::int32_t range, std::int32_t at_block) const {
    return static_cast<std::size_t>(at(range).begin) + static_cast<std::size_t>(at_block);
  }
  // 1 if a region ends between blocks at - 1 and at of the range, else 0; blocks outside the range count as
  // unmapped.
  std::int64_t border(std::int32_t range, std::int32_t at) const;
  void bring_forward(std::int32_t range);
  void put(std::int32_t range, std::int32_t at, BlockId page);
  void set(std::int32_t range, std::int32_t at, BlockId page);
  void record(std::vector<PageMapping>& list, std::int32_t range, std::int32_t at, BlockId page);
  std::optional<BlockId> spare_page(std::int32_t range, std::int32_t at) const;
  void drop(std::int32_t range, std::int32_t from);  // unmaps from block `from` on
  void drop_front(std::int32_t range);               // unmaps the blocks before the first needed one

  const SlotMapConfig config_;
  const std::vector<std::int32_t> lengths_;
  BlockPool& pool_;
  std::vector<BlockId> shown_;      // by block id
  std::vector<Range> ranges_;       // [num_slots][num_ranges]
  std::vector<std::int32_t> idle_;  // slots, the one idle for longest first
  std::int64_t num_borders_ = 0;
  std::vector<PageMapping> now_, ahead_;
  SlotMapCounts counts_;
};

}  // namespace pagoda
