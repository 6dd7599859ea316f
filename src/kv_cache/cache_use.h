#pragma once
// CacheUse: how a sequence uses the prefix cache: what it may find, and what it claims of the rows that it
// finds and leaves there. A view: texts stay the caller's. Plain data.
#include <concepts>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "request/cache_claim.h"
#include "request/request_adapter.h"

namespace pagoda {

struct CacheUse {
  // From a salt alone: rows of nobody's.
  template <class Text>
    requires std::convertible_to<const Text&, std::string_view>
  CacheUse(const Text& text) : salt(text) {}
  CacheUse(std::string_view text, const CacheClaim& claimed, TimeNs asked = 0)
      : salt(text), claim(claimed), time(asked) {}

  std::string_view salt;
  std::string_view variant;  // names what K and V depend on beside tokens, as pinned prefixes must have it
  std::shared_ptr<const RequestAdapter> adapter;  // for events; null: none
  CacheClaim claim;
  TimeNs time = 0;  // when the request came
};

}  // namespace pagoda
