#pragma once
// CacheOwner: the tenant and session that own a row of the prefix cache, so that the rows of either can be
// erased. Names are stored as hashes, which are the same in every process. A row used by several sessions of
// one tenant belongs to the tenant; a row used by several tenants has no owner. Plain data.
#include <cstdint>
#include <string_view>

#include "base/xxh64.h"

namespace pagoda {

struct CacheOwner {
  std::uint64_t tenant = 0, session = 0;  // 0: none
  bool operator==(const CacheOwner&) const = default;

  static std::uint64_t number_of(std::string_view name) {
    if (name.empty()) return 0;
    const std::uint64_t number = xxh64(name);
    return number == 0 ? 1 : number;
  }
  // The owner of a row that `other` has used as well.
  CacheOwner joined_by(const CacheOwner& other) const {
    if (tenant != other.tenant) return {};
    return {.tenant = tenant, .session = session == other.session ? session : 0};
  }
  // True if erasing the rows of this owner erases those of `other`. Here 0 matches any tenant or session.
  bool covers(const CacheOwner& other) const {
    return (tenant == 0 || tenant == other.tenant) && (session == 0 || session == other.session);
  }
};

}  // namespace pagoda
