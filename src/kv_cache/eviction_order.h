#pragma once
// EvictionOrder: which cached row of the pool is evicted next, where a new one is needed and none is free. It
// knows rows by their names and a plain record, never their content, and decides by calls so far alone. What
// cannot be found any more (rows whose beginning was evicted) is the pool's business.
//     add (its last user released it) -> remove (used again, withdrawn, or evicted as the next())
// Threads: none; owned by the engine thread.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "request/cache_claim.h"
#include "request/ids.h"

namespace pagoda {

enum class Eviction : std::uint8_t {
#define PAGODA_EVICTION_POLICY(name) name,
#include "kv_cache/eviction_policies.def"
#undef PAGODA_EVICTION_POLICY
};

inline constexpr std::string_view kEvictionPolicies[] = {
#define PAGODA_EVICTION_POLICY(name) #name,
#include "kv_cache/eviction_policies.def"
#undef PAGODA_EVICTION_POLICY
};

// A row as it is released by its last user. Rows of a sequence come last to first, so that the end of a
// prefix is released before its beginning.
struct CachedRow {
  std::int32_t group = 0;     // KV group
  std::int64_t num_hits = 0;  // other sequences that found it, since it was published
  CacheClaim claim = {};      // its users'
};

class EvictionOrder {
 public:
  virtual ~EvictionOrder() = default;
  virtual void add(BlockId row, const CachedRow& facts) = 0;  // not there yet
  virtual void remove(BlockId row) = 0;                       // is there
  virtual BlockId next() const = 0;                           // there is one
  virtual void append(std::vector<BlockId>& rows) const = 0;  // all of them, next() first
  // It is so late: when the latest request came. For orders by time.
  virtual void set_time(TimeNs) {}
  // After how many more rows than others this one is to go, if it is released now.
  virtual std::int64_t credit(const CachedRow&) const { return 0; }
};

#define PAGODA_EVICTION_POLICY(name) std::unique_ptr<EvictionOrder> make_##name##_eviction();
#include "kv_cache/eviction_policies.def"
#undef PAGODA_EVICTION_POLICY

std::unique_ptr<EvictionOrder> make_eviction_order(Eviction eviction);

}  // namespace pagoda
