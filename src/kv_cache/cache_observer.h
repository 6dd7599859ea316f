#pragma once
// CacheObserver: who wants to know what the prefix cache holds: which blocks later requests can find, and
// which no longer. Full blocks of the group that sees everything; windows and states follow it. Who uses a
// block is request/pool_event.h's matter. Threads: the engine thread; told in order, must return at once.
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
    const BlockHash* parent = nullptr;  // the block before it; null for a text's first
    // Not null for the first block of a text that only requests with the same salt find: the hash that its
    // chain starts from.
    const BlockHash* root = nullptr;
    std::span<const TokenId> tokens;
    const RequestAdapter* adapter = nullptr;  // that it is computed with; null: none
  };
  virtual void on_stored(const Stored& block) = 0;
  virtual void on_removed(const BlockHash& hash) = 0;
  // A tier, counted from the fastest, has the block from now on, or no more; the engine has it brought when
  // it is asked for.
  virtual void on_tier_stored(std::size_t /*tier*/, const BlockHash& /*hash*/) {}
  virtual void on_tier_removed(std::size_t /*tier*/, const BlockHash& /*hash*/) {}
  virtual void on_cleared() = 0;  // all of them, in the tiers, too
  virtual void end_step() = 0;    // the calls since the last one belong together
};

}  // namespace pagoda
