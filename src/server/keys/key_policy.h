#pragma once
// Applies a key's entry to the requests of a call: tenant, shared prefixes, permissions. Between a protocol's
// parser, which knows no keys, and the engine, which knows tenants only. Errors: invalid_argument, worded for
// the client. Threads: any.
#include <span>
#include <string_view>

#include "base/status.h"
#include "request/request.h"
#include "server/keys/key_store.h"

namespace pagoda {

// Whose requests they are: who has no key is told apart by `peer`, an address.
std::string_view tenant_of(const ApiKey& key, std::string_view peer);

// With `isolate`, prefixes are shared under one key only.
Status apply_key(const ApiKey& key, std::string_view peer, bool isolate, std::span<Request> requests);

// Tokens that a call may need at most, and that it needs for certain.
struct TokenNeed {
  std::int64_t all = 0, prompts = 0;
};
TokenNeed tokens_needed(std::span<const Request> requests);

}  // namespace pagoda
