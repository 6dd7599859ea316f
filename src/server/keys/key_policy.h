#pragma once
// Applies a key's entry to the requests of a call: tenant, prefix isolation, permissions. It connects the
// protocols' parsers, which know no keys, with the engine, which knows only tenants. Errors:
// invalid_argument, with a message for the client. Threads: any.
#include <span>
#include <string_view>

#include "base/status.h"
#include "request/request.h"
#include "server/keys/key_store.h"

namespace pagoda {

// The tenant of the requests; without a key it is derived from `peer`, an address.
std::string_view tenant_of(const ApiKey& key, std::string_view peer);

// With `isolate`, prefixes are shared under one key only.
Status apply_key(const ApiKey& key, std::string_view peer, bool isolate, std::span<Request> requests);

// The maximum and the minimum number of tokens that a call uses.
struct TokenNeed {
  std::int64_t all = 0, prompts = 0;
};
TokenNeed tokens_needed(std::span<const Request> requests);

}  // namespace pagoda
