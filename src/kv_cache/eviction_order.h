#pragma once
// EvictionOrder: decides which cached row of the pool is evicted next when a new row is needed and none is
// free. It knows rows by name and a plain record, not their content, and decides by earlier calls alone. The
// pool handles rows that can no longer be found because their beginning was evicted.
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

// A row as it is released by its last user. Rows of a sequence are released last to first, so that the end of
// a prefix precedes its beginning.
struct CachedRow {
  std::int32_t group = 0;     // KV group
  std::int64_t num_hits = 0;  // other sequences that found it since it was published
  CacheClaim claim = {};      // joined claims of its users
};

class EvictionOrder {
 public:
  virtual ~EvictionOrder() = default;
  virtual void add(BlockId row, const CachedRow& facts) = 0;  // must not be present
  virtual void remove(BlockId row) = 0;                       // must be present
  virtual BlockId next() const = 0;                           // must not be empty
  virtual void append(std::vector<BlockId>& rows) const = 0;  // all rows, next() first
  // Sets the current time: the arrival of the latest request. For orders by time.
  virtual void set_time(TimeNs) {}
  // Number of additional releases that the row survives compared with other rows, if released now.
  virtual std::int64_t credit(const CachedRow&) const { return 0; }
};

#define PAGODA_EVICTION_POLICY(name) std::unique_ptr<EvictionOrder> make_##name##_eviction();
#include "kv_cache/eviction_policies.def"
#undef PAGODA_EVICTION_POLICY

std::unique_ptr<EvictionOrder> make_eviction_order(Eviction eviction);

}  // namespace pagoda
