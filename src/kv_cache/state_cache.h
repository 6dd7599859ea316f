#pragma once
// StateCache: recurrent states in the prefix cache. A state is valid only at its exact length. States are
// kept at row boundaries, as copies that a step makes, and at a sequence's end, at any length, where the
// sequence's own row is kept. The tokens after the last full row there, a *tail*, have their own hash, under
// which the partially filled row and the state are published.
//
//     full rows    h1 ------- h2 ------- h3 ------- tail of 5 tokens: next(h3, tail)
//     states                  copy                  own
//
// Invariant: kept states take at most a quarter of the pool. Threads: none; owned by the engine thread.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv_cache/kv_sequence.h"
#include "kv_cache/prefix_index.h"
#include "kv_cache/state_eviction.h"
#include "request/page_ops.h"

namespace pagoda {

class StateCache {
 public:
  // Tokens after the full rows, at whose end a state is kept.
  struct Tail {
    BlockHash hash;
    std::int32_t count = 0;
  };

  // Borrows all arguments but num_blocks, the maximum that the pool may grow to. The last group must be the
  // states'.
  StateCache(const KvGeometry& geometry, const BlockTables& tables, PrefixIndex& index, BlockPool& pool,
             std::int32_t num_blocks);

  // Allocates rows for state copies at the sequence's anchors that a step passes on its way to `num_tokens`,
  // as long as may_take(pages) allows, and appends the copies to make. `place` is the sequence's index in the
  // batch.
  void copy_states(KvSequence& sequence, std::int32_t place, std::int32_t num_tokens,
                   const std::function<bool(std::int64_t)>& may_take, std::vector<StateCopy>& copies);
  // Called after a step: publishes the copies whose rows are full.
  void publish_snapshots(KvSequence& sequence);
  void drop_snapshots(KvSequence& sequence);
  // Called before the sequence releases its rows: publishes its own state and the partially filled row,
  // unless others share them.
  void publish_end(KvSequence& sequence);

  // Acquires the state with this hash, for a sequence that starts from it.
  BlockId acquire(const BlockHash& hash, const CacheClaim& claim);
  // Finds the longest known tail after `rows` full rows that `rest` starts with (without its last token) and
  // whose rows are all cached. `chain` is the hash of the last full row, `hashes` those of all.
  std::optional<Tail> find_tail(const BlockHash& chain, std::int32_t rows, std::span<const BlockHash> hashes,
                                std::span<const TokenId> rest, PrefixIndex::In in = PrefixIndex::In::pool);
  // Publishes a state that a tier has delivered.
  void publish_arrived(BlockId row, const BlockHash& hash, std::span<const TokenId> content,
                       const CacheClaim& claim);
  // Maximum number of the sequence's tokens, up to `num_tokens`, at which its state is, or will be, cached.
  std::int32_t shareable(const KvSequence& sequence, std::int32_t num_tokens) const;

  std::size_t group() const { return geometry_.groups().size() - 1; }
  void clear();
  void check_invariants() const;

 private:
  static constexpr std::size_t kMaxTails = 8;  // after the same rows; only the latest are remembered

  bool ends_in_cached_row(const KvSequence& sequence, std::int32_t rows) const;
  std::span<const TokenId> content_of_row(const KvSequence& sequence, std::int32_t row) const;
  void publish_state(KvSequence& sequence, BlockId row, const BlockHash& hash,
                     std::span<const TokenId> content);
  void keep_budget();
  void remember_tail(const BlockHash& chain, const Tail& tail);
  void forget_dead(std::vector<Tail>& tails) const;

  const KvGeometry& geometry_;
  const BlockTables& tables_;
  PrefixIndex& index_;
  BlockPool& pool_;
  const std::int64_t budget_;     // maximum number of states
  const std::size_t max_chains_;  // size of tails_ at which dead entries are removed
  StateEviction eviction_;
  std::unordered_map<BlockHash, std::vector<Tail>, BlockHashHasher> tails_;  // by the chain hash before them
};

}  // namespace pagoda
