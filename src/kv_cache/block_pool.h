#pragma once
// BlockPool: the owners of physical KV blocks, by id; the bytes live in model_runner/kv_storage.h. The unit
// of use, sharing, publishing and eviction is a row: one page, or the pages of a KV group's row
// (request/kv_groups.h), anywhere in the pool, named by its first page.
//     FREE --allocate--> IN USE (ref_count >= 1) --last release--> FREE, or CACHED if published
//     CACHED (ref_count 0, content kept) --acquire_cached--> IN USE; --allocate--> evicted, IN USE
// A published row may be LEAVING (a tier reads it; a listener stops that before the content is lost). A row
// IN USE may be ARRIVING (a tier writes it; neither published nor released meanwhile); see kv_tiers.h. FREE
// rows are taken before CACHED ones; these follow an EvictionOrder, held-back rows last. Each method queries
// or changes a row's state. Source: PagedAttention (SOSP'23) §4.2, §4.4; vLLM's automatic prefix caching.
// Threads: the engine thread.
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
  // CHECKs num_blocks >= 0; block 0 is handed out first. When the row of group 0 with some hash is evicted,
  // the rows of groups 1..num_dependent_groups with this hash leave the cache, too.
  explicit BlockPool(std::int32_t num_blocks, std::int32_t num_dependent_groups = 0,
                     Eviction eviction = Eviction::lru);

  // Sets the observer of reported rows (report_eviction()) that are forgotten; null: none. Borrowed.
  void set_cache_observer(CacheObserver* observer) { cache_observer_ = observer; }

  // Returns a block with ref_count 1; nullopt if all are IN USE. A full pool is a normal result, which the
  // scheduler handles by preempting; it is not an error.
  [[nodiscard]] std::optional<BlockId> allocate_one();
  // Appends a row of `num_pages` pages to `pages`; returns its name, the first page.
  [[nodiscard]] std::optional<BlockId> allocate_row(std::int32_t num_pages, std::vector<BlockId>& pages);

  // Joins these blocks, each allocated on its own, into one row named by the first of them.
  void join(std::span<const BlockId> pages);

  // Allocates exactly this block, if it is FREE.
  bool allocate_this(BlockId block);
  // The FREE (not CACHED) pages, which determine the page to hand out next.
  FreePages& free_pages() { return free_; }
  const FreePages& free_pages() const { return free_; }
  bool is_published(BlockId block) const { return blocks_[at(block)].published; }
  // Unpublishes the block; if it was CACHED, it becomes FREE.
  void withdraw(BlockId block);
  // Called for rows of this group that are unpublished, except by clear_cache().
  void set_on_forget(std::int32_t group, std::function<void(BlockId)> on_forget) {
    listened_group_ = group;
    on_forget_ = std::move(on_forget);
  }
  // Called for rows that become CACHED or are renewed.
  void set_on_cached(std::function<void(BlockId)> on_cached) { on_cached_ = std::move(on_cached); }

  // Transfers of a row to and from a tier. The listener is called for LEAVING rows that lose their content.
  void begin_leaving(BlockId row);
  void end_leaving(BlockId row);
  void begin_arriving(BlockId row);
  void end_arriving(BlockId row);
  bool is_leaving(BlockId row) const { return blocks_[at(row)].moves == Moves::leaving; }
  void set_on_stop_leaving(std::function<void(BlockId)> on_stop) { on_stop_leaving_ = std::move(on_stop); }
  std::int32_t num_leaving() const { return num_leaving_; }    // rows
  std::int32_t num_arriving() const { return num_arriving_; }  // pages
  // Holds back CACHED rows without another copy, so that they are evicted last; the listener of on_cached()
  // decides which. A row that is used again is no longer held back.
  void hold_back(BlockId row);  // must be CACHED and not held back
  void let_go(BlockId row);     // must be held back; it is ordered as if released now
  BlockId next_held_back() const { return held_back_->next(); }  // must exist
  std::int32_t num_held_back() const { return num_held_back_; }  // pages
  // The hash under which a row is published.
  const BlockHash& hash_of(BlockId row) const { return blocks_[at(row)].hash; }
  std::int32_t group_of(BlockId row) const { return blocks_[at(row)].group; }

  // Evicts the next CACHED block, which becomes FREE; false if there is none.
  bool evict_one();

  // Returns the block published under `hash`, with its ref_count raised; nullopt on a miss.
  [[nodiscard]] std::optional<BlockId> acquire_cached(const BlockHash& hash, std::int32_t group = 0);
  // Like acquire_cached(), without taking a reference.
  std::optional<BlockId> find_cached(const BlockHash& hash, std::int32_t group = 0) const;
  // Orders the row as if it had been released just now; no-op unless it is CACHED.
  void renew(BlockId block);
  // Appends the pages of a row IN USE, its first page first.
  void append_pages(BlockId block, std::vector<BlockId>& pages) const;
  // Appends the pages of all CACHED rows, the next to be evicted first.
  void append_cached(std::vector<BlockId>& pages) const;

  // Adds `count` FREE blocks, numbered from num_blocks().
  void add_blocks(std::int32_t count);

  // Adds a reference to a block IN USE.
  void share(BlockId block);

  // Publishes an IN USE, completely filled block for reuse under `hash`. The first block published under a
  // hash keeps it, so block tables only ever grow at the end. Returns true if this block was published.
  bool publish(BlockId block, const BlockHash& hash, std::int32_t group = 0);
  // Records a use of the published row: the first claim, or one that joins earlier claims.
  void use(BlockId row, const CacheClaim& claim);
  const CacheOwner& owner_of(BlockId row) const { return blocks_[at(row)].claim.owner; }
  // See eviction_order.h.
  void set_time(TimeNs now) {
    cached_->set_time(now);
    held_back_->set_time(now);
  }
  std::int64_t credit(BlockId row) const { return cached_->credit(facts(index(row))); }
  // Unpublishes the rows of this owner; CACHED ones become FREE.
  void withdraw_all(const CacheOwner& owner);
  // The cache observer knows of this published block and must be notified when it is forgotten.
  void report_eviction(BlockId block);

  // Drops one reference. Release a sequence's blocks last to first, so that the end of a prefix is evicted
  // before its beginning. CHECKs ref_count > 0 (a double release is a bug).
  void release_one(BlockId block);

  // Unpublishes every block; CACHED ones become FREE.
  void clear_cache();

  // Number of references to the page's row.
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
    // Fields of a row's first page:
    std::int32_t ref_count = 0;
    bool published = false;
    std::int32_t group = 0;     // when published
    std::int64_t num_hits = 0;  // since it was published
    BlockHash hash;             // when published
    CacheClaim claim;           // joined claims of its users since it was published
    bool claimed = false;       // `claim` is set
    bool reported = false;      // known to the cache observer
    bool held_back = false;     // when CACHED
    Moves moves = Moves::no;
    // Fields of every page:
    std::int32_t row = kNone;   // first page of its row; the page itself if FREE
    std::int32_t next = kNone;  // next page of its row
  };
  static BlockHash key(const BlockHash& hash, std::int32_t group);
  std::int32_t num_pages(std::int32_t row) const;
  static std::size_t at(BlockId block) { return static_cast<std::size_t>(index(block)); }
  CachedRow facts(std::int32_t row) const;
  void add_cached(std::int32_t row);
  void stop_leaving(std::int32_t row);  // if it is LEAVING
  void forget(std::int32_t row);        // unpublishes it
  void push_row(std::int32_t row);      // its pages become FREE
  void remove_cached(std::int32_t row);
  void withdraw_dependents(const BlockHash& hash);
  void evict_next();

  std::vector<Block> blocks_;
  FreePages free_;
  std::unordered_map<BlockHash, BlockId, BlockHashHasher> published_;
  std::unique_ptr<EvictionOrder> cached_, held_back_;
  std::int32_t num_cached_ = 0, num_held_back_ = 0;  // pages; num_cached_ includes the held-back ones
  const std::int32_t num_dependent_;
  std::int32_t listened_group_ = kNone;
  std::function<void(BlockId)> on_forget_, on_cached_, on_stop_leaving_;
  std::int32_t num_leaving_ = 0, num_arriving_ = 0;
  CacheObserver* cache_observer_ = nullptr;
};

}  // namespace pagoda
