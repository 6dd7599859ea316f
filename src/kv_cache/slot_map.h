#pragma once
// SlotMap: which virtual block shows which physical page. Address space is reserved for num_slots sequences
// of the longest length. A slot belongs to one sequence at a time; it is a range of blocks for each KV group,
// and the ranges of slot s are numbered s * num_ranges and on.
//
//     IDLE --acquire--> IN USE --release--> IDLE, its mapping kept (deferred reclamation) or dropped
//
// A mapping is a hint, like an entry of a cache; BlockPool says who owns a page. An idle slot may show pages
// of others, and a page may be shown ahead of need: nobody reads through either. FREE pages that are shown
// are held back in the pool. Invariant: no more regions (vm.max_map_count) than max_regions. Source:
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
  std::int32_t blocks_per_slot = 0;  // blocks of all its ranges
  std::int64_t max_regions = 0;      // 0: no limit
  bool deferred_reclaim = true;
  bool map_ahead = true;
  std::int32_t num_eager_blocks = 0;  // shown beyond what is needed when a slot is taken; rows, in a range
                                      // that has several blocks a row
  std::int32_t front_batch = 32;      // blocks behind a window that are unmapped in one call
};

struct SlotMapCounts {
  std::int64_t mapped_blocks = 0;    // shown because of a need, one call or several
  std::int64_t ahead_blocks = 0;     // shown ahead of need, eagerly or beside a step
  std::int64_t reused_blocks = 0;    // needed, and shown already
  std::int64_t reclaimed_slots = 0;  // idle ones whose mapping was dropped for want of regions
};

// A sequence's need of a range when it wants a slot: it owns `pages` from block `first` on, and is about to
// need blocks up to `end`.
struct RangeNeed {
  std::int32_t first = 0;
  std::span<const BlockId> pages;
  std::int32_t end = 0;
};

class SlotMap {
 public:
  // Borrows pool. `lengths`: of a slot's ranges, blocks_per_slot together; there may be none.
  SlotMap(const SlotMapConfig& config, BlockPool& pool, std::vector<std::int32_t> lengths);
  // One range.
  SlotMap(const SlotMapConfig& config, BlockPool& pool)
      : SlotMap(config, pool, std::vector{config.blocks_per_slot}) {}

  // The idle slot that fits best a sequence with these needs, one for each range: most of them shown already,
  // then least shown in vain, then idle for longest. nullopt: none is idle.
  std::optional<std::int32_t> acquire(std::span<const RangeNeed> needs);
  std::optional<std::int32_t> acquire(std::span<const BlockId> pages, std::int32_t num_blocks) {
    const RangeNeed need{.first = 0, .pages = pages, .end = num_blocks};
    return acquire(std::span(&need, 1));
  }
  void release(std::int32_t slot);

  // Whether `changes` more blocks can be shown within max_regions; drops what is shown in vain if need be,
  // idle slots first.
  [[nodiscard]] bool make_space(std::int64_t changes);
  // The same without dropping, for what is not needed yet.
  bool has_room(std::int64_t changes) const;

  // Makes the range show `pages` from its block `first` on.
  void show(std::int32_t range, std::int32_t first, std::span<const BlockId> pages);
  // The sequence needs no block from `end` on any more; the range goes on showing them.
  void shrink(std::int32_t range, std::int32_t end);
  // The sequence needs no block before `first` any more; once there are enough of them they are unmapped.
  void leave_front(std::int32_t range, std::int32_t first);
  // Shows up to num_eager_blocks * `per_row` free pages behind block `end` - 1, in the step's way but mostly
  // in the same call.
  void show_eagerly(std::int32_t range, std::int32_t end, std::int32_t per_row = 1);
  // Shows free pages at the `count` blocks from `next` on, beside the step.
  void show_ahead(std::int32_t range, std::int32_t next, std::int32_t count = 1);

  // The page to own next as block `at` of `range`, so that fewest calls follow: the one that is shown there,
  // or the one after `previous`; allocated. nullopt: the pool is empty.
  std::optional<BlockId> allocate(std::int32_t range, std::int32_t at, BlockId previous);

  BlockId shown(std::int32_t range, std::int32_t at) const { return shown_[place(range, at)]; }
  BlockId block_id(std::int32_t range, std::int32_t at) const {
    return BlockId{static_cast<std::int32_t>(place(range, at))};
  }
  std::int32_t length(std::int32_t range) const { return at(range).length; }
  std::int32_t num_ranges() const { return static_cast<std::int32_t>(lengths_.size()); }  // ranges of a slot
  std::int32_t range_of(std::int32_t slot, std::size_t number) const {
    return slot * num_ranges() + static_cast<std::int32_t>(number);
  }
  const SlotMapConfig& config() const { return config_; }
  const SlotMapCounts& counts() const { return counts_; }
  std::int64_t num_regions() const { return 1 + num_borders_; }  // about, never less than there are
  std::int32_t num_idle() const { return static_cast<std::int32_t>(idle_.size()); }
  // Blocks up to the last one shown.
  std::int32_t num_shown(std::int32_t range) const { return at(range).shown_end; }

  // Appends what has been recorded since the last call.
  void take(std::vector<PageMapping>& now, std::vector<PageMapping>& ahead);
  void check_invariants() const;  // O(slots * blocks)

 private:
  struct Range {
    std::int32_t begin = 0, length = 0;     // the id of its first block, and how many there are
    std::int32_t front = 0, shown_end = 0;  // nothing is shown before and from there
    std::int32_t first = 0, end = 0;        // blocks that its sequence needs; none if the slot is idle
  };
  const Range& at(std::int32_t range) const { return ranges_[static_cast<std::size_t>(range)]; }
  Range& at(std::int32_t range) { return ranges_[static_cast<std::size_t>(range)]; }
  std::size_t place(std::int32_t range, std::int32_t at_block) const {
    return static_cast<std::size_t>(at(range).begin) + static_cast<std::size_t>(at_block);
  }
  // Whether a region ends between blocks at - 1 and at of the range; outside of it nothing counts as mapped.
  std::int64_t border(std::int32_t range, std::int32_t at) const;
  void bring_forward(std::int32_t range);
  void put(std::int32_t range, std::int32_t at, BlockId page);
  void set(std::int32_t range, std::int32_t at, BlockId page);
  void record(std::vector<PageMapping>& list, std::int32_t range, std::int32_t at, BlockId page);
  std::optional<BlockId> spare_page(std::int32_t range, std::int32_t at) const;
  void drop(std::int32_t range, std::int32_t from);  // unmaps from block `from` on
  void drop_front(std::int32_t range);               // unmaps before the first block needed

  const SlotMapConfig config_;
  const std::vector<std::int32_t> lengths_;
  BlockPool& pool_;
  std::vector<BlockId> shown_;      // by block id
  std::vector<Range> ranges_;       // [num_slots][num_ranges]
  std::vector<std::int32_t> idle_;  // slots, idle for longest first
  std::int64_t num_borders_ = 0;
  std::vector<PageMapping> now_, ahead_;
  SlotMapCounts counts_;
};

}  // namespace pagoda
