#pragma once
// CacheClaim: the owner of a row of the prefix cache, and how much keeping the row is worth to its users
// (request/cache_hint.h, converted to points in time). Plain data.
#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "request/cache_hint.h"
#include "request/cache_owner.h"

namespace pagoda {

struct CacheClaim {
  CacheOwner owner = {};
  std::int32_t priority = CacheHint::kUsual;
  TimeNs expires = 0;       // no use is expected later; 0: unknown
  TimeNs pinned_until = 0;  // until then the row is evicted after all unpinned rows

  // The combined claim on a row that two users share.
  CacheClaim joined_by(const CacheClaim& other) const {
    return {.owner = owner.joined_by(other.owner),
            .priority = std::max(priority, other.priority),
            .expires = expires == 0 || other.expires == 0 ? 0 : std::max(expires, other.expires),
            .pinned_until = std::max(pinned_until, other.pinned_until)};
  }
};

}  // namespace pagoda
