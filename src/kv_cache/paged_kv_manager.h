#pragma once
// PagedKvManager: the paper's memory manager. A sequence's K/V lies in rows of block_size token slots,
// anywhere in the pool, found through a table for each KV group (request/kv_groups.h). Tables only grow at
// the end, and by a row only when the one before is full. Forks share rows by reference count; whoever first
// writes into a shared last row gets a copy of it. Full rows are published under a hash chain and found again
// by later requests with the same salt and prefix. A group with a window gives back what no position to come
// will see, and its rows are published only at anchors: where a later request can be expected to go on
// (paged_prefix.cc), as states are (paged_states.cc). A prompt that was let in can finish: what it has yet to
// take is set aside as a count (paged_promise.cc). A pinned prefix is a sequence like others, which nobody
// runs. Swapped out, a sequence's rows are counted in a pool of their own; its content is there only. A group
// of states has one row a sequence, which every token is written into: forks copy it with their next token.
// Invariants: a row's ref_count is the number of tables it stands in; a row that a sequence may write into
// (at or after its num_computed tokens, once grown) stands in no other table and is not published; what is
// set aside is free. Source: PagedAttention (SOSP'23) §4.2-4.4; prefix cache: vLLM's automatic prefix
// caching. Threads: none; owned by the engine thread.
#include <atomic>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "kv_cache/block_hash.h"
#include "kv_cache/block_pool.h"
#include "kv_cache/kv_manager.h"
#include "kv_cache/slot_account.h"
#include "kv_cache/state_shelf.h"
#include "request/page_ops.h"

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
  std::int64_t num_available_blocks() const override { return num_free_blocks() - set_aside(); }
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
  std::int64_t num_swap_blocks() const override { return swap_pool_ ? swap_pool_->num_blocks() : 0; }
  std::int64_t num_free_swap_blocks() const override { return swap_pool_ ? swap_pool_->num_free() : 0; }
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
  std::int32_t blocks_for(std::int64_t num_tokens) const;
  bool can_grow(SequenceId id, std::int32_t num_tokens) const { return can_grow(at(id), num_tokens); }
  // Of one group: what blocks_to_grow() counts of all.
  std::int64_t pages_to_grow(SequenceId id, std::size_t group, std::int32_t num_tokens) const {
    return pages_to_grow(at(id), group, num_tokens);
  }
  bool is_swapped(SequenceId id) const { return at(id).swapped; }
  std::int32_t rows_for(std::size_t group, std::int64_t num_tokens) const {
    return static_cast<std::int32_t>(groups_[group].rows_for(num_tokens));
  }
  std::int32_t num_rows(SequenceId id) const { return blocks_for(at(id).num_tokens); }  // to its end
  std::int32_t num_computed(SequenceId id) const { return at(id).num_computed; }
  std::int32_t block_size() const { return config_.block_size; }
  std::span<const KvGroup> groups() const { return groups_; }
  BlockPool& mutable_pool() { return pool_; }
  const PagedKvConfig& config() const { return config_; }

 private:
  // A sequence's part of one group: rows [first, end), each of them pages_per_row entries of `pages`. What
  // stands there before `first` belongs to others by now.
  struct Rows {
    std::vector<BlockId> pages;
    std::int32_t first = 0, end = 0;
  };
  // A copy of a state that is being made: it is after so many full rows.
  struct Snapshot {
    std::int32_t rows = 0;
    BlockId row{};
  };
  // Tokens behind full rows at whose end a state is kept.
  struct Tail {
    BlockHash hash;
    std::int32_t count = 0;
  };
  struct Table {
    std::vector<Rows> groups;   // of the pool; of the swap space while `swapped`
    std::vector<KvTable> more;  // of groups 1, 2, … for the kernels: valid once grown
    bool swapped = false;
    std::int32_t num_tokens = 0;      // there is room for so many
    std::int32_t num_computed = 0;    // so many have K/V
    std::int32_t num_promised = 0;    // what is set aside lets it get so far; 0: nothing is
    std::int32_t promised_chunk = 0;  // by so many tokens at a time
    std::int32_t num_hashed = 0;      // full rows whose hashes are in the chain
    BlockHash root;                   // of the chain: model and salt
    BlockHash chain;                  // hash of the last of them; the root when there is none
    std::vector<BlockHash> hashes;    // of all of them, where there are anchors
    std::vector<TokenId> content;     // with verify_hits: their tokens
    // Ascending, in rows: where window rows and states are published, or have been.
    std::vector<std::int32_t> anchors;
    // Where there are states: the computed tokens behind the last full row; copies to be published; what it
    // began from; and whether rows were copied for a step that has not been computed.
    std::vector<TokenId> tail;
    std::vector<Snapshot> snapshots;
    std::optional<BlockHash> origin;
    std::optional<BlockId> latest_state;  // of those that it has left
    bool copying = false;
    bool forked = false;                // others have been, or it is one
    std::int64_t queried = 0, hit = 0;  // for the statistics, until it first gets room
  };
  struct Prefix {
    SequenceId holder{};
    std::vector<TokenId> tokens;
  };
  Table& at(SequenceId id);
  const Table& at(SequenceId id) const;
  Table& insert(SequenceId id);
  static std::size_t num(std::int32_t value) { return static_cast<std::size_t>(value); }
  BlockId row(const Table& table, std::size_t group, std::int32_t at) const {
    return table.groups[group].pages[num(at) * num(groups_[group].pages_per_row)];
  }
  std::span<const BlockId> valid_pages(const Table& table, std::size_t group) const;
  // The table's rows of the group become the rows [first, end) of `from`.
  void share_rows(const Rows& from, std::size_t group, std::int32_t first, std::int32_t end, Table& table);
  // Nothing yet, to be filled from row `first` on.
  Rows rows_from(std::size_t group, std::int32_t first) const;
  // Calls f(group, first page) for each row in the table, the last ones of a group first.
  template <class F>
  void each_row(const Table& table, F f) const {
    each_place(table, [&](std::size_t group, std::int32_t i) { f(group, row(table, group, i)); });
  }
  // Calls f(group, row's number) for the same rows.
  template <class F>
  void each_place(const Table& table, F f) const {
    for (std::size_t group = 0; group < table.groups.size(); ++group)
      for (std::int32_t i = table.groups[group].end - 1; i >= table.groups[group].first; --i) f(group, i);
  }
  void release_rows(Table& table);

  // In paged_slots.cc. How full row `at` is for a table of these lengths.
  RowFill fill_of(std::int32_t num_computed, std::int32_t num_tokens, std::size_t group,
                  std::int32_t at) const;
  RowFill fill_of(const Table& table, std::size_t group, std::int32_t at) const {
    return fill_of(table.num_computed, table.num_tokens, group, at);
  }
  // Of the table's row, which stands in it; before the row is released, and after it was taken.
  void hold_row(const Table& table, std::size_t group, std::int32_t at);
  void leave_row(const Table& table, std::size_t group, std::int32_t at);
  // The only way to change the lengths of a table that has rows in the pool.
  void set_lengths(Table& table, std::int32_t num_computed, std::int32_t num_tokens);
  SlotAccount::Total walk_slots() const;  // what the account has to say
  void give_back(Table& table);           // what is behind the windows

  std::int32_t next_row(const Table& table, std::size_t group) const;
  // The row that the next token is written into, if it exists and others share it.
  bool must_copy(const Table& table, std::size_t group, std::int32_t num_tokens) const;
  std::int64_t pages_to_grow(const Table& table, std::size_t group, std::int32_t num_tokens) const;
  std::int64_t pages_to_grow(const Table& table, std::int32_t num_tokens) const;

  // In paged_promise.cc.
  std::int64_t set_aside() const;  // over all sequences
  // For this one, if it had room for `num_tokens` tokens.
  std::int64_t set_aside_for(const Table& table, std::int32_t num_tokens, std::int32_t num_promised,
                             std::int32_t chunk) const;
  bool can_grow(const Table& table, std::int32_t num_tokens) const;
  void end_promise(SequenceId id, Table& table);

  // In paged_states.cc.
  std::size_t state_group() const { return groups_.size() - 1; }
  void drop_snapshots(Table& table);
  bool ends_in_cached_row(const Table& table, std::int32_t rows) const;
  std::span<const TokenId> content_of_row(const Table& table, std::int32_t row) const;
  void publish_state(Table& table, BlockId row, const BlockHash& hash, std::span<const TokenId> content);
  void publish_snapshots(Table& table);
  void publish_end(Table& table);
  void forget_dead_tails(std::vector<Tail>& tails);
  std::optional<Tail> find_tail(const BlockHash& chain, std::int32_t rows, std::span<const BlockHash> hashes,
                                std::span<const TokenId> rest);
  std::int32_t shareable_with_state(const Table& table, std::int32_t num_tokens) const;
  std::optional<BlockId> state_at(const Table& table, std::int32_t rows) const;

  // In paged_prefix.cc.
  void map_cached(Table& table, std::span<const TokenId> tokens);
  void map_prefix(Table& table, std::span<const TokenId> tokens);  // when that gives more
  void add_anchor(Table& table, std::int32_t rows) const;
  void publish_full_rows(Table& table, std::span<const TokenId> tokens);
  void publish_anchor(Table& table, std::int32_t rows);
  void tell_stored(const Table& table, std::int32_t row, const BlockHash& parent,
                   std::span<const TokenId> content);
  void release_in_segments(Table& table);
  void count_pinned();
  BlockHash hash_block(const BlockHash& parent, std::span<const TokenId> tokens);
  bool publish(BlockId block, const BlockHash& hash, std::size_t group, std::span<const TokenId> content);
  bool content_matches(BlockId block, std::span<const TokenId> tokens) const;

  const PagedKvConfig config_;
  const std::vector<KvGroup>& groups_;              // of geometry()
  const bool sees_all_, has_windows_, has_states_;  // the first group does; some have
  const bool has_anchors_;                          // windows or states
  BlockPool pool_;
  std::optional<BlockPool> swap_pool_;  // its block ids are swap block ids
  BlockHasher hasher_;
  std::unordered_map<SequenceId, Table> tables_;
  std::unordered_set<SequenceId> promised_;
  StateShelf shelf_;
  std::unordered_map<BlockHash, std::vector<Tail>, BlockHashHasher> tails_;  // by the chain before them
  std::vector<TokenId> content_;  // with verify_hits: the tokens of each published row, at its first page
  PrefixCacheStats stats_;
  CacheObserver* cache_observer_ = nullptr;
  std::vector<Prefix> prefixes_;
  std::atomic<std::int64_t> num_pinned_{0};
  mutable SlotAccount slots_;  // usage() settles it
};

}  // namespace pagoda
