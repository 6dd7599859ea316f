#pragma once
// What a key's entry means for the requests of a call: whose they are, which prefixes they share, what they
// may ask for. Between a protocol's parser, which knows no keys, and the engine, which knows tenants only.
// Errors: invalid_argument in the words of a client's mistake. Threads: any.
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

// What a call may need at most, and what it needs for certain.
struct TokenNeed {
  std::int64_t all = 0, prompts = 0;
};
TokenNeed tokens_needed(std::span<const Request> requests);

}  // namespace pagoda
