#pragma once
// CacheObserver: is notified of what the prefix cache holds: which blocks later requests can find, and which
// they no longer can. Covers full blocks of the full-attention group; windows and states follow it. For the
// users of a block see request/pool_event.h. Threads: the engine thread; calls are in order and must not
// block.
#include <cstddef>
#include <span>

#include "kv_cache/block_hash.h"
#include "request/request_adapter.h"

namespace pagoda {

class CacheObserver {
 public:
  virtual ~CacheObserver() = default;
  // A full block.
  struct Stored {
    const BlockHash& hash;
    const BlockHash* parent = nullptr;  // the previous block; null for the first of a text
    // For the first block of a text that only requests with the same salt can find: the root of its hash
    // chain. Otherwise null.
    const BlockHash* root = nullptr;
    std::span<const TokenId> tokens;
    const RequestAdapter* adapter = nullptr;  // adapter that it is computed with; null: none
  };
  virtual void on_stored(const Stored& block) = 0;
  virtual void on_removed(const BlockHash& hash) = 0;
  // A tier, counted from the fastest, has gained or lost the block; the engine fetches the block on demand.
  virtual void on_tier_stored(std::size_t /*tier*/, const BlockHash& /*hash*/) {}
  virtual void on_tier_removed(std::size_t /*tier*/, const BlockHash& /*hash*/) {}
  virtual void on_cleared() = 0;  // everything, including the tiers
  virtual void end_step() = 0;    // the calls since the last end_step() belong together
};

}  // namespace pagoda
