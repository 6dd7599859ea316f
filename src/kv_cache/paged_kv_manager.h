#pragma once
// PagedKvManager: the paper's memory manager. It composes the classes that do the work: who owns a row of the
// pool (block_pool.h), which rows a sequence holds (block_tables.h), which rows later sequences find
// (prefix_index.h, prefix_cache.h, state_cache.h), what a prompt has yet to take (promises.h), pinned
// prefixes and the swap space. Of its own it has the sequences, and the order in which these classes are
// called. Beyond 25 public methods, because it answers four interfaces and adds nothing to them. Invariant: a
// row that a sequence may write into, at or after its num_computed tokens, is held by no other table and not
// published, once the sequence has grown. Source: PagedAttention (SOSP'23) §4.2-4.5. Threads: none; owned by
// the engine thread.
#include <atomic>
#include <optional>
#include <string>
#include <unordered_map>

#include "kv_cache/kv_manager.h"
#include "kv_cache/pinned_prefixes.h"
#include "kv_cache/prefix_cache.h"
#include "kv_cache/promises.h"
#include "kv_cache/swap_space.h"

namespace pagoda {

struct PagedKvConfig {
  std::int32_t block_size = 16;      // 1 or more; of every row
  std::int32_t num_blocks = 0;       // pages; > 0
  std::int32_t num_created = 0;      // the pool starts with so many; 0: with all
  std::int32_t num_swap_blocks = 0;  // at most num_blocks
  bool enable_prefix_caching = true;
  std::string model_id = {};  // part of every hash
#ifdef NDEBUG
  bool verify_hits = false;  // compare the tokens of a block with those asked for, on every hit
#else
  bool verify_hits = true;
#endif
  std::int32_t hash_bits = 256;  // tests force collisions with fewer
  // Absent: one that sees everything, a page a row. One that sees everything comes first.
  std::optional<std::vector<KvGroup>> groups = std::nullopt;
  bool whole_prompts = false;  // a prompt is computed in one step, however long it is
};

class PagedKvManager : public KvSharing, public KvSwap, public KvInspection, public KvManager {
 public:
  explicit PagedKvManager(PagedKvConfig config);

  std::int64_t num_blocks() const override { return pool_.num_blocks(); }
  std::int64_t num_free_blocks() const override { return pool_.num_free(); }
  std::int64_t num_available_blocks() const override { return num_free_blocks() - promises_.set_aside(); }
  std::int32_t shareable(SequenceId id, std::int32_t num_tokens) const override;
  void keep_shareable(SequenceId id, std::int32_t num_tokens) override;

  std::int32_t add_sequence(SequenceId id, std::span<const TokenId> tokens, std::string_view salt,
                            bool allow_cache) override;
  bool caches_prefixes() const override { return config_.enable_prefix_caching; }
  std::int64_t pages_to_promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) const override;
  [[nodiscard]] bool promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) override;
  std::int32_t most_tokens(SequenceId id, std::int32_t num_tokens) override;
  [[nodiscard]] bool grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) override;
  void copy_states(SequenceId id, std::int32_t index, std::int32_t num_tokens,
                   std::vector<StateCopy>& copies) override;
  void computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) override;
  void shrink(SequenceId id, std::int32_t num_tokens) override;
  void fork(SequenceId parent, SequenceId child) override;
  std::int32_t fork_prefix(SequenceId parent, SequenceId child, std::int32_t num_tokens) override;
  void free(SequenceId id) override;
  KvTables tables(SequenceId id) const override;
  KvTable pages_of(SequenceId id, std::size_t group) const override;
  std::string_view name() const override { return "paged"; }
  void append_cached(std::vector<BlockId>& out) const override { pool_.append_cached(out); }
  std::int32_t ref_count(BlockId block) const override { return pool_.ref_count(block); }
  [[nodiscard]] bool pin_prefix(SequenceId parent, SequenceId holder,
                                std::span<const TokenId> tokens) override;
  void unpin_prefix(SequenceId holder) override;
  std::int64_t num_pinned_blocks() const override { return num_pinned_.load(std::memory_order_acquire); }
  [[nodiscard]] bool swap_out(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) override;
  [[nodiscard]] bool swap_in(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) override;
  SwapCost swap_cost(std::span<const SequenceId> ids) const override;
  std::int64_t num_swap_blocks() const override { return swap_space_ ? swap_space_->num_blocks() : 0; }
  std::int64_t num_free_swap_blocks() const override { return swap_space_ ? swap_space_->num_free() : 0; }
  std::int64_t blocks_to_grow(SequenceId id, std::int32_t num_tokens) const override;
  std::int64_t blocks_owned_by(std::span<const SequenceId> ids) const override;
  KvUsage usage() const override;
  PrefixCacheStats prefix_cache_stats() const override { return stats_; }
  void clear_prefix_cache() override;
  void set_cache_observer(CacheObserver* observer) override;
  void check_invariants() const override;

  const BlockPool& pool() const { return pool_; }

 protected:
  // Whether `num_pages` free pages can be taken now.
  virtual bool make_available(std::int64_t num_pages) { return num_pages <= pool_.num_free(); }
  // Appends to `pages`, which hold the rows before, a row of the group as row `at`. There is one to be had.
  virtual void new_row(SequenceId, std::size_t group, std::int32_t at, std::vector<BlockId>& pages);
  bool can_grow(SequenceId id, std::int32_t num_tokens) const {
    return promises_.can_grow(at(id).table, num_tokens, num_free_blocks());
  }
  // One group's part of blocks_to_grow().
  std::int64_t pages_to_grow(SequenceId id, std::size_t group, std::int32_t num_tokens) const {
    return tables_.pages_to_grow(at(id).table, group, num_tokens);
  }
  const BlockTable& table(SequenceId id) const { return at(id).table; }
  std::int32_t block_size() const { return config_.block_size; }
  std::int32_t blocks_for(std::int64_t num_tokens) const {
    return static_cast<std::int32_t>((num_tokens + config_.block_size - 1) / config_.block_size);
  }
  std::span<const KvGroup> groups() const { return geometry().groups(); }
  BlockPool& mutable_pool() { return pool_; }
  const PagedKvConfig& config() const { return config_; }

 private:
  KvSequence& at(SequenceId id);
  const KvSequence& at(SequenceId id) const;
  KvSequence& insert(SequenceId id);
  std::vector<const BlockTable*> tables_of(std::span<const SequenceId> ids) const;
  BlockTables::EachTable each_table() const;  // that is not swapped
  void map_pinned(KvSequence& sequence, std::span<const TokenId> tokens);
  void release_rows(KvSequence& sequence);
  void count_pinned();

  const PagedKvConfig config_;
  BlockPool pool_;
  BlockTables tables_;
  PrefixIndex index_;
  std::optional<StateCache> states_;
  PrefixCache cache_;
  Promises promises_;
  PinnedPrefixes pinned_;
  std::optional<SwapSpace> swap_space_;
  std::unordered_map<SequenceId, KvSequence> sequences_;
  PrefixCacheStats stats_;
  std::atomic<std::int64_t> num_pinned_{0};
};

}  // namespace pagoda
