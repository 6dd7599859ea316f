#pragma once
// CacheOwner: whose a row of the prefix cache is, so that a session's or a tenant's rows can be erased. Names
// are kept as numbers, which are the same in every process. A row that several sessions of a tenant have used
// is the tenant's; one that several tenants have used is nobody's. Plain data.
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
  // Whose a row is that another has used, too.
  CacheOwner joined_by(const CacheOwner& other) const {
    if (tenant != other.tenant) return {};
    return {.tenant = tenant, .session = session == other.session ? session : 0};
  }
  // Whether erasing the rows of this owner erases those of `other`: 0 stands for any here.
  bool covers(const CacheOwner& other) const {
    return (tenant == 0 || tenant == other.tenant) && (session == 0 || session == other.session);
  }
};

}  // namespace pagoda
