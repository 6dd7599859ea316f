#pragma once
// BlockPool decides which physical KV block is used by whom. It deals in block ids only; the bytes live
// in model_runner/kv_storage.h. All blocks are equal pages. What is used, shared, published and evicted is a
// row: one page, or as many as a KV group's row takes (request/kv_groups.h), anywhere in the pool. A row is
// named by its first page; below, "block" is a row where nothing else is said.
//
//     FREE --allocate--> IN USE (ref_count >= 1) --last release--> FREE, or CACHED if published
//     CACHED (ref_count 0, content kept) --acquire_cached--> IN USE; --allocate--> evicted, IN USE
//
// FREE blocks are handed out before CACHED ones and last-released first, so that the memory touched
// grows only with the K/V really used; those held back only when no other is FREE. CACHED blocks are evicted
// least recently released first. A row is published for a group; those of other groups than 0 are of no use
// without the row of group 0 under the same hash, and are no longer CACHED when that is evicted (this is for
// pools whose group 0 sees everything: see set_dependent_groups). Invariant: every page is in exactly one of
// these three states; num_free() counts pages, FREE + CACHED. Source: PagedAttention (SOSP'23) §4.2 block
// tables, §4.4 sharing by reference count; CACHED state: vLLM's design note on automatic prefix caching.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv_cache/cache_observer.h"
#include "request/ids.h"

namespace pagoda {

class BlockPool {
 public:
  explicit BlockPool(std::int32_t num_blocks);  // CHECKs num_blocks >= 0; block 0 is handed out first
  // Groups 1..count, whose rows are no longer CACHED when the row of group 0 of the same hash is evicted.
  void set_dependent_groups(std::int32_t count) { num_dependent_ = count; }

  // Hears of rows that are forgotten after tell_when_forgotten(); null: nobody. Borrowed.
  void set_cache_observer(CacheObserver* observer) { cache_observer_ = observer; }

  // Gives `count` blocks, each with ref_count 1. All or nothing: nullopt when num_free() < count. "Full"
  // is a normal answer, which the scheduler meets by preempting; it is not an error.
  [[nodiscard]] std::optional<std::vector<BlockId>> allocate(std::int32_t count);
  [[nodiscard]] std::optional<BlockId> allocate_one();
  // A row of `num_pages` pages, which are appended to `pages`; its name is the first of them.
  [[nodiscard]] std::optional<BlockId> allocate_row(std::int32_t num_pages, std::vector<BlockId>& pages);

  // Makes one row of these blocks, each of which was allocated alone; its name is the first of them.
  void join(std::span<const BlockId> pages);

  // Takes this very block, if it is FREE.
  bool allocate_this(BlockId block);
  bool is_free(BlockId block) const { return free_at_[at(block)] != kNone; }  // not if CACHED
  // A FREE block is handed out after the others that are, or like them again. No effect on one that is not.
  void hold_back(BlockId block);
  void let_go(BlockId block);
  bool is_held_back(BlockId block) const { return is_free(block) && free_at_[at(block)] < num_held_; }
  // A FREE block that is not held back, without taking it.
  std::optional<BlockId> peek_free() const;
  bool is_published(BlockId block) const { return blocks_[at(block)].published; }
  // It is published no more: FREE, if it was CACHED.
  void withdraw(BlockId block);
  // Who hears of rows of a group that are published no more, but for clear_cache().
  void set_on_forget(std::int32_t group, std::function<void(BlockId)> on_forget) {
    listened_group_ = group;
    on_forget_ = std::move(on_forget);
  }
  // Makes the CACHED block that would go next FREE; false when there is none.
  bool evict_one();

  // The block holding `hash`, with its ref_count raised; nullopt on a miss.
  [[nodiscard]] std::optional<BlockId> acquire_cached(const BlockHash& hash, std::int32_t group = 0);
  // The same without taking it.
  std::optional<BlockId> find_cached(const BlockHash& hash, std::int32_t group = 0) const;
  // As if it had been released just now; no effect on one that is not CACHED.
  void renew(BlockId block);
  // Appends the pages of a row IN USE, its first one first.
  void append_pages(BlockId block, std::vector<BlockId>& pages) const;
  // The pages of all rows CACHED, the next to be evicted first.
  void append_cached(std::vector<BlockId>& pages) const;

  // FREE pages that were handed out before: their memory may be resident for nothing.
  std::int32_t num_free_used() const {
    return num_used_ - (num_blocks() - static_cast<std::int32_t>(free_.size()));
  }
  bool is_used(BlockId page) const { return blocks_[at(page)].used; }  // always, unless FREE
  // All but `keep` of those are as if they had never been handed out; appends them, lowest id first. Those
  // that would be handed out last go first.
  void forget_used(std::int32_t keep, std::vector<BlockId>& pages);

  // Blocks num_blocks() and on, FREE.
  void add_blocks(std::int32_t count);

  // One more reference to a block IN USE.
  void share(BlockId block);

  // Marks an IN USE, completely filled block as reusable under `hash`. The first block published under a
  // hash keeps it, so block tables only ever grow at the end. True when this block was taken.
  bool publish(BlockId block, const BlockHash& hash, std::int32_t group = 0);
  // The cache observer knows of this published block, and hears when it is forgotten.
  void tell_when_forgotten(BlockId block);

  // Drops one reference from each block. Pass a sequence's blocks last-to-first, so that the end of a
  // prefix is evicted before its beginning. CHECKs ref_count > 0 (a double release is a bug here).
  void release(std::span<const BlockId> blocks);
  void release_one(BlockId block);

  // Forgets every published block; those CACHED become FREE.
  void clear_cache();

  // Of any page: its row's.
  std::int32_t ref_count(BlockId block) const {
    return blocks_[static_cast<std::size_t>(blocks_[at(block)].row)].ref_count;
  }
  std::int32_t num_blocks() const { return static_cast<std::int32_t>(blocks_.size()); }
  std::int32_t num_free() const { return static_cast<std::int32_t>(free_.size()) + num_cached_; }
  std::int32_t num_cached() const { return num_cached_; }  // pages
  std::int64_t num_published() const { return static_cast<std::int64_t>(published_.size()); }  // rows
  void check_invariants() const;  // O(num_blocks); tests and the simulator call it every step

 private:
  static constexpr std::int32_t kNone = -1;
  struct Block {
    // Of a row's first page:
    std::int32_t ref_count = 0;
    bool published = false;
    std::int32_t group = 0;                     // when published
    std::int32_t older = kNone, newer = kNone;  // neighbours among the CACHED
    BlockHash hash;                             // when published
    bool told = false;                          // the cache observer knows of it
    // Of every page:
    std::int32_t row = kNone;   // first page of its row; itself when FREE
    std::int32_t next = kNone;  // page of its row
    bool used = false;          // it was handed out since the pool began or forgot about it
  };
  static BlockHash key(const BlockHash& hash, std::int32_t group);
  std::int32_t num_pages(std::int32_t row) const;
  static std::size_t at(BlockId block) { return static_cast<std::size_t>(index(block)); }
  void push_newest(std::int32_t block);
  void forget(std::int32_t row);    // it is published no more
  void push_row(std::int32_t row);  // its pages become FREE
  void unlink(std::int32_t block);
  void evict_oldest();

  void push_free(BlockId block);
  BlockId pop_free();                              // CHECKs that there is one
  void move_free(std::int32_t a, std::int32_t b);  // swaps two places in free_

  std::vector<Block> blocks_;
  std::vector<BlockId> free_;          // a stack; the first num_held_ are held back
  std::vector<std::int32_t> free_at_;  // by block: its place in free_, or kNone
  std::int32_t num_held_ = 0;
  std::int32_t num_used_ = 0;  // pages, FREE or not
  std::unordered_map<BlockHash, BlockId, BlockHashHasher> published_;
  std::int32_t oldest_ = kNone, newest_ = kNone, num_cached_ = 0;
  std::int32_t num_dependent_ = 0, listened_group_ = kNone;
  std::function<void(BlockId)> on_forget_;
  CacheObserver* cache_observer_ = nullptr;
};

}  // namespace pagoda
