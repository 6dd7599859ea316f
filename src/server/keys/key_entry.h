#pragma once
// KeyEntry: the operator's settings for one API key: its name, role and limits. A plain record without the
// key itself, of which only the SHA-256 is kept. Threads: any.
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
  std::string name;                          // the tenant's name in logs, metrics and /admin/usage
  std::vector<KeyDigest> digests;            // several while the key is being rotated
  Role role = Role::user;                    // user, metrics or admin
  std::int32_t weight = 1;                   // its share under contention, relative to other keys
  std::int64_t requests_per_minute = 0;      // 0: unlimited
  std::int64_t tokens_per_minute = 0;        // prompts plus answers; 0: unlimited
  std::optional<std::int32_t> max_priority;  // smallest `priority` allowed; nullopt: any
  std::int32_t max_model_len = 0;            // limit for its requests; 0: the model's
};

// True if a key with role `holder` may use a route that requires `route`.
bool may_use(Role holder, Role route);
std::string_view name_of(Role role);

}  // namespace pagoda
