#pragma once
// StateCache: recurrent states in the prefix cache. A state is right at its own length alone. It is kept at
// row borders, as a copy that a step makes in passing, and at a sequence's end, at any length, where its own
// row stays. The tokens behind the last full row there, a *tail*, have a hash of their own: under it lie the
// row that they fill in part, and the state.
//
//     full rows    h1 ------- h2 ------- h3 ------- tail of 5 tokens: next(h3, tail)
//     states                  copy                  own
//
// Invariant: kept states take a quarter of the pool at most. Threads: none; owned by the engine thread.
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
  // Tokens behind full rows at whose end a state is kept.
  struct Tail {
    BlockHash hash;
    std::int32_t count = 0;
  };

  // Borrows the first four. The last group is the states'; the pool may come to have `num_blocks`.
  StateCache(const KvGeometry& geometry, const BlockTables& tables, PrefixIndex& index, BlockPool& pool,
             std::int32_t num_blocks);

  // Takes rows for the copies at the sequence's anchors that a step passes on its way to `num_tokens`, while
  // may_take(pages) says that there are some, and appends what to copy there. `place` is the sequence's
  // number in the batch.
  void copy_states(KvSequence& sequence, std::int32_t place, std::int32_t num_tokens,
                   const std::function<bool(std::int64_t)>& may_take, std::vector<StateCopy>& copies);
  // After a step: publishes those of the copies whose rows are full.
  void publish_snapshots(KvSequence& sequence);
  void drop_snapshots(KvSequence& sequence);
  // Before the sequence gives up its rows: publishes its own state and the row that is filled in part, unless
  // others share them.
  void publish_end(KvSequence& sequence);

  // The group's row under a hash begins another sequence.
  BlockId acquire(const BlockHash& hash, const CacheClaim& claim);
  // The longest tail behind `rows` full rows that `rest` begins with, less its last token, all rows of which
  // are cached. `chain` is the hash of the last of them, `hashes` those of all.
  std::optional<Tail> find_tail(const BlockHash& chain, std::int32_t rows, std::span<const BlockHash> hashes,
                                std::span<const TokenId> rest, PrefixIndex::In in = PrefixIndex::In::pool);
  // Publishes a state that a tier has brought.
  void publish_arrived(BlockId row, const BlockHash& hash, std::span<const TokenId> content,
                       const CacheClaim& claim);
  // The most tokens of the sequence, up to `num_tokens`, at which its state is cached, or will be.
  std::int32_t shareable(const KvSequence& sequence, std::int32_t num_tokens) const;

  std::size_t group() const { return geometry_.groups().size() - 1; }
  void clear();
  void check_invariants() const;

 private:
  static constexpr std::size_t kMaxTails = 8;  // behind the same rows: the latest are known

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
  const std::int64_t budget_;     // states, at most
  const std::size_t max_chains_;  // in tails_, before the dead ones are looked for
  StateEviction eviction_;
  std::unordered_map<BlockHash, std::vector<Tail>, BlockHashHasher> tails_;  // by the chain before them
};

}  // namespace pagoda
