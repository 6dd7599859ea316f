#pragma once
// KvSharing: sequences that hold the same blocks: forks, cached prefixes and pinned prefixes (§4.4). A
// manager that supports only forks overrides only fork(). Threads: owned by the engine thread;
// num_pinned_blocks() is safe from any.
#include <cstdint>
#include <span>

#include "base/check.h"
#include "request/ids.h"
#include "request/tier_moves.h"

namespace pagoda {

class CacheObserver;

class KvSharing {
 public:
  virtual ~KvSharing() = default;

  // True if a new sequence finds K/V that earlier sequences with the same prefix have computed.
  virtual bool caches_prefixes() const { return false; }
  // The number of the first `num_tokens` tokens of `id` that another sequence can share once they are
  // computed.
  virtual std::int32_t shareable(SequenceId, std::int32_t /*num_tokens*/) const { return 0; }
  // Announces that other sequences will ask for the first `num_tokens` tokens of `id` (a result of
  // shareable()), so that they are published when computed.
  virtual void keep_shareable(SequenceId, std::int32_t /*num_tokens*/) {}

  virtual void fork(SequenceId parent, SequenceId child) = 0;  // child shares every block of parent
  // Creates `child`, which shares the full blocks among the first `num_tokens` computed tokens of `parent`;
  // returns the number of shared tokens. Like add_sequence(), may leave num_available_blocks() below 0.
  virtual std::int32_t fork_prefix(SequenceId, SequenceId, std::int32_t /*num_tokens*/) {
    CHECK(!"this manager shares no prefixes");
    return 0;
  }
  // Number of blocks that freeing all of `ids` would release.
  virtual std::int64_t blocks_owned_by(std::span<const SequenceId> ids) const = 0;

  // Pins a prefix (Fig. 10): `holder` becomes a sequence that shares the blocks of `parent`, which has
  // computed exactly `tokens`, until unpin_prefix(). add_sequence() maps new sequences that start with
  // `tokens` onto these blocks, including the last one, which is copied on the first write. False: not
  // supported.
  [[nodiscard]] virtual bool pin_prefix(SequenceId, SequenceId, std::span<const TokenId>) { return false; }
  virtual void unpin_prefix(SequenceId) {}
  virtual std::int64_t num_pinned_blocks() const { return 0; }

  // Makes cached rows of this owner unfindable (a 0 matches any). Returns what remains to be erased from
  // tiers.
  virtual TierErase erase_from_cache(const CacheOwner& owner) { return {.keys = {}, .owner = owner}; }
  virtual void clear_prefix_cache() {}  // cached blocks become free
  // Sets the observer of what the prefix cache stores and removes; null: none. Borrowed.
  virtual void set_cache_observer(CacheObserver*) {}
};

}  // namespace pagoda
