#pragma once
// KeyEntry: what an operator says of one key: whose it is, what it may do, and how much of it. A plain record
// without the key itself, of which only SHA-256 is kept. Threads: any.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/protocol.h"

namespace pagoda {

using KeyDigest = std::array<unsigned char, 32>;
KeyDigest digest_of_key(std::string_view key);
std::string hex_of(const KeyDigest& digest);
std::optional<KeyDigest> digest_from_hex(std::string_view hex);

struct KeyEntry {
  std::string name;                          // the tenant's; in logs, metrics and /admin/usage
  std::vector<KeyDigest> digests;            // several while the key is being rotated
  Role role = Role::user;                    // user, metrics or admin
  std::int32_t weight = 1;                   // its share of a contended machine beside the others'
  std::int64_t requests_per_minute = 0;      // 0: as many as it likes
  std::int64_t tokens_per_minute = 0;        // prompts and answers together; 0: likewise
  std::optional<std::int32_t> max_priority;  // the smallest `priority` it may ask for; absent: any
  std::int32_t max_model_len = 0;            // bound on its requests; 0: the model's
};

// Whether a holder's role allows a route.
bool may_use(Role holder, Role route);
std::string_view name_of(Role role);

}  // namespace pagoda
