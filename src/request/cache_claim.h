#pragma once
// CacheClaim: what the users of a row of the prefix cache have said of it: whose it is, and what keeping it
// is worth (request/cache_hint.h, as points in time). Plain data.
#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "request/cache_hint.h"
#include "request/cache_owner.h"

namespace pagoda {

struct CacheClaim {
  CacheOwner owner = {};
  std::int32_t priority = CacheHint::kUsual;
  TimeNs expires = 0;       // nobody comes for it later; 0: nobody knows
  TimeNs pinned_until = 0;  // it goes after all others until then

  // The claim on a row that another has used, too.
  CacheClaim joined_by(const CacheClaim& other) const {
    return {.owner = owner.joined_by(other.owner),
            .priority = std::max(priority, other.priority),
            .expires = expires == 0 || other.expires == 0 ? 0 : std::max(expires, other.expires),
            .pinned_until = std::max(pinned_until, other.pinned_until)};
  }
};

}  // namespace pagoda
