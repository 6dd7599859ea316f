#pragma once
// BlockPool decides which physical KV block is used by whom, in ids only; the bytes live in
// model_runner/kv_storage.h. What is used, shared, published and evicted is a row: one page, or as many as a
// KV group's row takes (request/kv_groups.h), anywhere in the pool, named by its first page.
//     FREE --allocate--> IN USE (ref_count >= 1) --last release--> FREE, or CACHED if published
//     CACHED (ref_count 0, content kept) --acquire_cached--> IN USE; --allocate--> evicted, IN USE
// A published row may be LEAVING (a tier reads it: whoever listens ends that before its content is lost), one
// IN USE may be ARRIVING (a tier writes it: neither published nor released meanwhile); see kv_tiers.h. FREE
// is taken before CACHED, which goes by an EvictionOrder, rows that are held back after all others. Each of
// the many methods is one question or change of a row's state. Source: PagedAttention (SOSP'23) §4.2, §4.4;
// vLLM's automatic prefix caching. Threads: the engine thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv_cache/cache_observer.h"
#include "kv_cache/eviction_order.h"
#include "kv_cache/free_pages.h"
#include "request/cache_claim.h"
#include "request/ids.h"

namespace pagoda {

class BlockPool {
 public:
  // CHECKs num_blocks >= 0; block 0 is handed out first. Rows of groups 1..num_dependent_groups are no longer
  // CACHED when the row of group 0 of the same hash is evicted.
  explicit BlockPool(std::int32_t num_blocks, std::int32_t num_dependent_groups = 0,
                     Eviction eviction = Eviction::lru);

  // Hears of rows that are forgotten after report_eviction(); null: nobody. Borrowed.
  void set_cache_observer(CacheObserver* observer) { cache_observer_ = observer; }

  // A block with ref_count 1. nullopt: all are IN USE. "Full" is a normal answer, which the scheduler meets
  // by preempting; it is not an error.
  [[nodiscard]] std::optional<BlockId> allocate_one();
  // A row of `num_pages` pages, which are appended to `pages`; its name is the first of them.
  [[nodiscard]] std::optional<BlockId> allocate_row(std::int32_t num_pages, std::vector<BlockId>& pages);

  // Makes one row of these blocks, each of which was allocated alone; its name is the first of them.
  void join(std::span<const BlockId> pages);

  // Takes this very block, if it is FREE.
  bool allocate_this(BlockId block);
  // Those that are FREE, not CACHED: which of them is handed out next.
  FreePages& free_pages() { return free_; }
  const FreePages& free_pages() const { return free_; }
  bool is_published(BlockId block) const { return blocks_[at(block)].published; }
  // It is published no more: FREE, if it was CACHED.
  void withdraw(BlockId block);
  // Called for rows of a group that are published no more, but for clear_cache().
  void set_on_forget(std::int32_t group, std::function<void(BlockId)> on_forget) {
    listened_group_ = group;
    on_forget_ = std::move(on_forget);
  }
  // Called for rows that become CACHED, or are renewed.
  void set_on_cached(std::function<void(BlockId)> on_cached) { on_cached_ = std::move(on_cached); }

  // A row's way to a tier and from one. The listener is called for LEAVING rows that lose their content.
  void begin_leaving(BlockId row);
  void end_leaving(BlockId row);
  void begin_arriving(BlockId row);
  void end_arriving(BlockId row);
  bool is_leaving(BlockId row) const { return blocks_[at(row)].moves == Moves::leaving; }
  void set_on_stop_leaving(std::function<void(BlockId)> on_stop) { on_stop_leaving_ = std::move(on_stop); }
  std::int32_t num_leaving() const { return num_leaving_; }    // rows
  std::int32_t num_arriving() const { return num_arriving_; }  // pages
  // Rows CACHED of which there is no other copy, and which go after all others: whoever hears on_cached()
  // decides. A row that is used again is held back no more.
  void hold_back(BlockId row);  // CACHED, not held back
  void let_go(BlockId row);     // held back; it goes as if it were released now
  BlockId next_held_back() const { return held_back_->next(); }  // there is one
  std::int32_t num_held_back() const { return num_held_back_; }  // pages
  // The name of a published row.
  const BlockHash& hash_of(BlockId row) const { return blocks_[at(row)].hash; }
  std::int32_t group_of(BlockId row) const { return blocks_[at(row)].group; }

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

  // Blocks num_blocks() and on, FREE.
  void add_blocks(std::int32_t count);

  // One more reference to a block IN USE.
  void share(BlockId block);

  // Marks an IN USE, completely filled block as reusable under `hash`. The first block published under a
  // hash keeps it, so block tables only ever grow at the end. True when this block was taken.
  bool publish(BlockId block, const BlockHash& hash, std::int32_t group = 0);
  // Somebody uses the published row: the first one's claim, which others join.
  void use(BlockId row, const CacheClaim& claim);
  const CacheOwner& owner_of(BlockId row) const { return blocks_[at(row)].claim.owner; }
  // See eviction_order.h.
  void set_time(TimeNs now) {
    cached_->set_time(now);
    held_back_->set_time(now);
  }
  std::int64_t credit(BlockId row) const { return cached_->credit(facts(index(row))); }
  // Rows of this owner are published no more; those CACHED become FREE.
  void withdraw_all(const CacheOwner& owner);
  // The cache observer knows of this published block, and hears when it is forgotten.
  void report_eviction(BlockId block);

  // Drops one reference. Release a sequence's blocks last to first, so that the end of a prefix is evicted
  // before its beginning. CHECKs ref_count > 0 (a double release is a bug here).
  void release_one(BlockId block);

  // Forgets every published block; those CACHED become FREE.
  void clear_cache();

  // References to the page's row.
  std::int32_t ref_count(BlockId block) const {
    return blocks_[static_cast<std::size_t>(blocks_[at(block)].row)].ref_count;
  }
  std::int32_t num_blocks() const { return static_cast<std::int32_t>(blocks_.size()); }
  std::int32_t num_free() const { return free_.size() + num_cached_; }
  std::int32_t num_cached() const { return num_cached_; }                                      // pages
  std::int64_t num_published() const { return static_cast<std::int64_t>(published_.size()); }  // rows
  void check_invariants() const;  // O(num_blocks); tests and the simulator call it every step

 private:
  static constexpr std::int32_t kNone = -1;
  enum class Moves : std::uint8_t { no, leaving, arriving };
  struct Block {
    // A row's first page:
    std::int32_t ref_count = 0;
    bool published = false;
    std::int32_t group = 0;     // when published
    std::int64_t num_hits = 0;  // since it was published
    BlockHash hash;             // when published
    CacheClaim claim;           // its users' since then
    bool claimed = false;       // it had one
    bool reported = false;      // the cache observer knows of it
    bool held_back = false;     // when CACHED
    Moves moves = Moves::no;
    // Every page:
    std::int32_t row = kNone;   // first page of its row; itself when FREE
    std::int32_t next = kNone;  // page of its row
  };
  static BlockHash key(const BlockHash& hash, std::int32_t group);
  std::int32_t num_pages(std::int32_t row) const;
  static std::size_t at(BlockId block) { return static_cast<std::size_t>(index(block)); }
  CachedRow facts(std::int32_t row) const;
  void add_cached(std::int32_t row);
  void stop_leaving(std::int32_t row);  // if it does
  void forget(std::int32_t row);        // it is published no more
  void push_row(std::int32_t row);      // its pages become FREE
  void remove_cached(std::int32_t row);
  void withdraw_dependents(const BlockHash& hash);
  void evict_next();

  std::vector<Block> blocks_;
  FreePages free_;
  std::unordered_map<BlockHash, BlockId, BlockHashHasher> published_;
  std::unique_ptr<EvictionOrder> cached_, held_back_;
  std::int32_t num_cached_ = 0, num_held_back_ = 0;  // pages; the first counts both
  const std::int32_t num_dependent_;
  std::int32_t listened_group_ = kNone;
  std::function<void(BlockId)> on_forget_, on_cached_, on_stop_leaving_;
  std::int32_t num_leaving_ = 0, num_arriving_ = 0;
  CacheObserver* cache_observer_ = nullptr;
};

}  // namespace pagoda
