#pragma once
// SlotMap: which virtual block shows which physical page. Address space is reserved for num_slots sequences
// of the longest length; a slot is given to one sequence at a time and shows that sequence's pages in order.
//
//     IDLE --acquire--> IN USE --release--> IDLE, its mapping kept (deferred reclamation) or dropped
//
// A mapping is a hint about the future, like an entry of a cache: what a sequence owns is BlockPool's
// business. So an idle slot may go on showing pages that others own by now, and a page may be shown ahead of
// need; nobody reads through either. FREE pages that are shown somewhere are held back in the pool, so that
// they are still there when the slot grows or is used again. Every change is recorded, for the model runner
// to carry out in the same order. Invariant: no more regions (what Linux counts against vm.max_map_count)
// than max_regions. Source: vAttention (arXiv 2405.04437) §5: alloc_reqid, deferred reclamation, eager
// allocation, overlap. Threads: none; owned by the engine thread.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv_cache/block_pool.h"
#include "request/page_ops.h"

namespace pagoda {

struct SlotMapConfig {
  std::int32_t num_slots = 0;        // > 0
  std::int32_t blocks_per_slot = 0;  // > 0
  std::int64_t max_regions = 0;      // 0: no limit
  bool deferred_reclaim = true;
  bool map_ahead = true;
  std::int32_t num_eager_blocks = 0;  // shown beyond what is needed when a slot is taken
};

struct SlotMapCounts {
  std::int64_t mapped_blocks = 0;    // shown because of a need, one call or several
  std::int64_t ahead_blocks = 0;     // shown ahead of need, eagerly or beside a step
  std::int64_t reused_blocks = 0;    // needed, and shown already
  std::int64_t reclaimed_slots = 0;  // idle ones whose mapping was dropped for want of regions
};

class SlotMap {
 public:
  SlotMap(const SlotMapConfig& config, BlockPool& pool);  // borrows pool

  // The idle slot that fits best a sequence which owns `pages` and is about to need `num_blocks`: most of
  // them shown already, then least shown in vain, then idle for longest. nullopt: none is idle.
  std::optional<std::int32_t> acquire(std::span<const BlockId> pages, std::int32_t num_blocks);
  void release(std::int32_t slot);

  // Whether `changes` more blocks can be shown within max_regions; drops what is shown in vain if need be,
  // idle slots first.
  [[nodiscard]] bool make_room(std::int64_t changes);
  // The same without dropping, for what is not needed yet.
  bool has_room(std::int64_t changes) const;

  // Makes the slot show `pages` from its block `first` on.
  void show(std::int32_t slot, std::int32_t first, std::span<const BlockId> pages);
  // The sequence needs no block from `end` on any more; the slot goes on showing them.
  void shrink(std::int32_t slot, std::int32_t end);
  // Shows up to num_eager_blocks free pages behind block `end` - 1, in the step's way but mostly in the same
  // call.
  void show_eagerly(std::int32_t slot, std::int32_t end);
  // Shows a free page at block `next`, beside the step.
  void show_ahead(std::int32_t slot, std::int32_t next);

  // The page to own next as block `at` of `slot`, so that fewest calls follow: the one that is shown there,
  // or the one after `previous`; allocated. nullopt: the pool is empty.
  std::optional<BlockId> allocate(std::int32_t slot, std::int32_t at, BlockId previous);

  BlockId shown(std::int32_t slot, std::int32_t at) const { return shown_[place(slot, at)]; }
  BlockId block_id(std::int32_t slot, std::int32_t at) const {
    return BlockId{slot * config_.blocks_per_slot + at};
  }
  const SlotMapConfig& config() const { return config_; }
  const SlotMapCounts& counts() const { return counts_; }
  std::int64_t num_regions() const { return 1 + num_borders_; }  // about, never less than there are
  std::int32_t num_idle() const { return static_cast<std::int32_t>(idle_.size()); }
  std::int32_t num_shown(std::int32_t slot) const { return num_shown_[static_cast<std::size_t>(slot)]; }

  // Appends what has been recorded since the last call.
  void take(std::vector<PageMapping>& now, std::vector<PageMapping>& ahead);
  void check_invariants() const;  // O(slots * blocks)

 private:
  std::size_t place(std::int32_t slot, std::int32_t at) const {
    return static_cast<std::size_t>(slot) * static_cast<std::size_t>(config_.blocks_per_slot) +
           static_cast<std::size_t>(at);
  }
  // Whether a region ends between blocks at - 1 and at of the slot; outside of it nothing is mapped.
  std::int64_t border(std::int32_t slot, std::int32_t at) const;
  void bring_forward(std::int32_t slot);
  void set(std::int32_t slot, std::int32_t at, BlockId page);
  void record(std::vector<PageMapping>& list, std::int32_t slot, std::int32_t at, BlockId page);
  std::optional<BlockId> spare_page(std::int32_t slot, std::int32_t at) const;
  void drop(std::int32_t slot, std::int32_t from);  // what it shows from block `from` on

  const SlotMapConfig config_;
  BlockPool& pool_;
  std::vector<BlockId> shown_;           // [num_slots][blocks_per_slot]
  std::vector<std::int32_t> num_shown_;  // by slot: blocks up to the last one shown
  std::vector<std::int32_t> num_owned_;  // by slot: blocks that its sequence needs; 0: idle
  std::vector<std::int32_t> idle_;       // idle for longest first
  std::int64_t num_borders_ = 0;
  std::vector<PageMapping> now_, ahead_;
  SlotMapCounts counts_;
};

}  // namespace pagoda
