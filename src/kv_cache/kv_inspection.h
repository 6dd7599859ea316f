#pragma once
// KvInspection: the view of a manager for snapshots, metrics and tests. Nothing here changes what a sequence
// holds, and no scheduling decision depends on it.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "request/ids.h"
#include "request/kv_groups.h"
#include "request/kv_usage.h"

namespace pagoda {

// In tokens; a sequence is counted when it first gets blocks, not while it waits for them.
struct PrefixCacheStats {
  std::int64_t queries = 0, hits = 0;
  // Tokens missing in the pool that were requested from tiers, and the tokens that tiers delivered; not
  // included in `hits`.
  std::int64_t external_queries = 0, external_hits = 0;
};

class KvInspection {
 public:
  virtual ~KvInspection() = default;
  virtual std::string_view name() const = 0;  // value of --kv-manager
  virtual KvUsage usage() const = 0;
  virtual PrefixCacheStats prefix_cache_stats() const { return {}; }
  // The pool blocks of the sequence in a group, as used by ref_count() and copies.
  virtual KvTable pages_of(SequenceId id, std::size_t group) const = 0;
  virtual std::int32_t ref_count(BlockId) const { return 1; }
  // Appends the cached blocks, the next to be evicted first.
  virtual void append_cached(std::vector<BlockId>&) const {}
  // The sequence's first block in the reserved address space. nullopt if block tables name blocks of the
  // pool, or the sequence has no slot yet.
  virtual std::optional<BlockId> first_virtual_block(SequenceId) const { return std::nullopt; }
  virtual void check_invariants() const = 0;  // tests and the simulator call it every step
};

}  // namespace pagoda
