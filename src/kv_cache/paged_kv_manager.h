#pragma once
// PagedKvManager: the paper's memory manager. A sequence's K/V lies in blocks of block_size token slots,
// anywhere in the pool, found through its block table. Tables only grow at the end, and by a block only
// when the one before is full. Forks share blocks by reference count; whoever first writes into a shared
// last block gets a copy of it. Full blocks are published under a hash chain and found again by later
// requests with the same salt and prefix.
// A pinned prefix is a sequence like others, which nobody runs.
// Swapped out, a sequence's blocks are counted in a pool of their own; its content is there only.
// Invariants: a block's ref_count is the number of tables it stands in; a block that a sequence may
// write into (at or after its num_computed tokens, once grown) stands in no other table.
// Source: PagedAttention (SOSP'23) §4.2-4.4; prefix cache: vLLM's automatic prefix caching.
// Threads: none; owned by the engine thread.
#include <atomic>
#include <string>
#include <unordered_map>

#include "kv_cache/block_hash.h"
#include "kv_cache/block_pool.h"
#include "kv_cache/kv_manager.h"

namespace pagoda {

struct PagedKvConfig {
  std::int32_t block_size = 16;      // 1 or more
  std::int32_t num_blocks = 0;       // > 0
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
};

class PagedKvManager : public KvManager {
 public:
  explicit PagedKvManager(PagedKvConfig config);

  std::int32_t block_size() const override { return config_.block_size; }
  std::int64_t num_blocks() const override { return pool_.num_blocks(); }
  std::int64_t num_free_blocks() const override { return pool_.num_free(); }
  std::int32_t add_sequence(SequenceId id, std::span<const TokenId> tokens, std::string_view salt,
                            bool allow_cache) override;
  bool caches_prefixes() const override { return config_.enable_prefix_caching; }
  [[nodiscard]] bool grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) override;
  void computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) override;
  void shrink(SequenceId id, std::int32_t num_tokens) override;
  void fork(SequenceId parent, SequenceId child) override;
  std::int32_t fork_prefix(SequenceId parent, SequenceId child, std::int32_t num_tokens) override;
  void free(SequenceId id) override;
  std::span<const BlockId> block_table(SequenceId id) const override;
  std::int32_t ref_count(BlockId block) const override { return pool_.ref_count(block); }
  [[nodiscard]] bool pin_prefix(SequenceId parent, SequenceId holder,
                                std::span<const TokenId> tokens) override;
  void unpin_prefix(SequenceId holder) override;
  std::int64_t num_pinned_blocks() const override { return num_pinned_.load(std::memory_order_acquire); }
  [[nodiscard]] bool swap_out(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) override;
  [[nodiscard]] bool swap_in(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) override;
  SwapCost swap_cost(std::span<const SequenceId> ids) const override;
  std::int64_t num_swap_blocks() const override { return swap_pool_ ? swap_pool_->num_blocks() : 0; }
  std::int64_t num_free_swap_blocks() const override { return swap_pool_ ? swap_pool_->num_free() : 0; }
  std::int64_t blocks_to_grow(SequenceId id, std::int32_t num_tokens) const override;
  std::int64_t blocks_owned_by(std::span<const SequenceId> ids) const override;
  Fit fit(std::int64_t num_tokens) const override;
  KvUsage usage() const override;
  PrefixCacheStats prefix_cache_stats() const override { return stats_; }
  void clear_prefix_cache() override;
  void check_invariants() const override;

  const BlockPool& pool() const { return pool_; }

 protected:
  // The block at place `at` of the sequence's table, which holds `table` so far. There is one to be had.
  virtual BlockId new_block(SequenceId, std::size_t at, std::span<const BlockId> table);
  std::int32_t blocks_for(std::int64_t num_tokens) const;
  std::int64_t blocks_to_swap(std::span<const SequenceId> ids) const;
  bool is_swapped(SequenceId id) const { return at(id).swapped; }
  BlockPool& mutable_pool() { return pool_; }
  const PagedKvConfig& config() const { return config_; }

 private:
  struct Table {
    std::vector<BlockId> blocks;  // of the pool; of the swap space while `swapped`
    bool swapped = false;
    std::int32_t num_tokens = 0;        // there is room for so many
    std::int32_t num_computed = 0;      // so many have K/V
    std::int32_t num_hashed = 0;        // full blocks whose hashes are in the chain
    BlockHash root;                     // of the chain: model and salt
    BlockHash chain;                    // hash of the last of them; the root when there is none
    std::int64_t queried = 0, hit = 0;  // for the statistics, until it first gets room
  };
  struct Prefix {
    SequenceId holder{};
    std::vector<TokenId> tokens;
  };
  Table& at(SequenceId id);
  const Table& at(SequenceId id) const;
  Table& insert(SequenceId id);
  // The block that the next token is written into, if it exists and others share it.
  bool must_copy(const Table& table, std::int32_t num_tokens) const;
  void map_cached(Table& table, std::span<const TokenId> tokens);
  void map_prefix(Table& table, std::span<const TokenId> tokens);  // when that gives more
  void count_pinned();
  BlockHash hash_block(const BlockHash& parent, std::span<const TokenId> tokens);
  bool content_matches(BlockId block, std::span<const TokenId> tokens) const;

  const PagedKvConfig config_;
  BlockPool pool_;
  std::optional<BlockPool> swap_pool_;  // its block ids are swap block ids
  BlockHasher hasher_;
  std::unordered_map<SequenceId, Table> tables_;
  std::vector<TokenId> content_;  // with verify_hits: the tokens of each published block
  PrefixCacheStats stats_;
  std::vector<Prefix> prefixes_;
  std::atomic<std::int64_t> num_pinned_{0};
  struct Fill {
    std::int16_t computed = 0, known = 0;
  };
  mutable std::vector<Fill> fills_;  // usage() works in it: by block, at most 256 slots each
};

}  // namespace pagoda
