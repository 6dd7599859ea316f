#pragma once
// KvSharing: sequences that hold the same blocks: forks, cached prefixes and pinned prefixes (§4.4).
// A manager that can only fork overrides fork() alone.
// Threads: owned by the engine thread; num_pinned_blocks() is safe from any.
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

  // Whether a new sequence finds what earlier ones with the same beginning have computed.
  virtual bool caches_prefixes() const { return false; }
  // How many of the first `num_tokens` tokens of `id` another sequence can share once they are computed.
  virtual std::int32_t shareable(SequenceId, std::int32_t /*num_tokens*/) const { return 0; }
  // Announces that others will ask for the first `num_tokens` tokens of `id`, a result of shareable(), so
  // that they are published when computed.
  virtual void keep_shareable(SequenceId, std::int32_t /*num_tokens*/) {}

  virtual void fork(SequenceId parent, SequenceId child) = 0;  // child shares every block of parent
  // Creates `child`, which shares the full blocks among the first `num_tokens` computed tokens of `parent`;
  // returns how many tokens that is. Like add_sequence(), it may leave num_available_blocks() below 0.
  virtual std::int32_t fork_prefix(SequenceId, SequenceId, std::int32_t /*num_tokens*/) {
    CHECK(!"this manager shares no prefixes");
    return 0;
  }
  // Blocks that freeing all of `ids` would give back.
  virtual std::int64_t blocks_owned_by(std::span<const SequenceId> ids) const = 0;

  // Pins a prefix (Fig. 10): `holder` becomes a sequence that shares the blocks of `parent`, which has
  // computed just `tokens`, until unpin_prefix(). add_sequence() maps new sequences that start with `tokens`
  // onto them, the last block included; the first write into that copies it. False: not supported.
  [[nodiscard]] virtual bool pin_prefix(SequenceId, SequenceId, std::span<const TokenId>) { return false; }
  virtual void unpin_prefix(SequenceId) {}
  virtual std::int64_t num_pinned_blocks() const { return 0; }

  // Cached rows of this owner (of any where it says 0) are found no more. What is left to erase from tiers.
  virtual TierErase erase_from_cache(const CacheOwner& owner) { return {.keys = {}, .owner = owner}; }
  virtual void clear_prefix_cache() {}  // cached blocks become free
  // Reports what the prefix cache stores and removes; null: to nobody. Borrowed.
  virtual void set_cache_observer(CacheObserver*) {}
};

}  // namespace pagoda
