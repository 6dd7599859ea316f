#pragma once
// CacheUse: how a sequence uses the prefix cache: the entries that it may find, and its claim on the rows
// that it finds and leaves there. A view: strings remain the caller's. Plain data.
#include <concepts>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "request/cache_claim.h"
#include "request/request_adapter.h"

namespace pagoda {

struct CacheUse {
  // From a salt alone: rows without an owner.
  template <class Text>
    requires std::convertible_to<const Text&, std::string_view>
  CacheUse(const Text& text) : salt(text) {}
  CacheUse(std::string_view text, const CacheClaim& claimed, TimeNs asked = 0)
      : salt(text), claim(claimed), time(asked) {}

  std::string_view salt;
  // Everything besides tokens that K and V depend on; must match for pinned prefixes.
  std::string_view variant;
  std::shared_ptr<const RequestAdapter> adapter;  // for events; null: none
  CacheClaim claim;
  TimeNs time = 0;  // arrival time of the request
};

}  // namespace pagoda
