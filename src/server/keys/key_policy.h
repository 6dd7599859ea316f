#pragma once
// Applies a key's entry to the requests of a call: tenant, prefix isolation, permissions. It connects the
// protocols' parsers, which do not know about keys, with the engine, which only knows tenants. Errors:
// invalid_argument, with a message for the client. Threads: any.
#include <span>
#include <string_view>

#include "base/status.h"
#include "request/request.h"
#include "server/keys/key_store.h"

namespace pagoda {

// The tenant of a key's requests; without a key, derived from the address `peer`.
std::string_view tenant_of(const ApiKey& key, std::string_view peer);

// With `isolate`, cached prefixes are shared only between requests of the same key.
Status apply_key(const ApiKey& key, std::string_view peer, bool isolate, std::span<Request> requests);

// The maximum and the minimum number of tokens that a call uses.
struct TokenNeed {
  std::int64_t all = 0, prompts = 0;
};
TokenNeed tokens_needed(std::span<const Request> requests);

}  // namespace pagoda
