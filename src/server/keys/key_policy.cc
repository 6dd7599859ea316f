#include "server/keys/key_policy.h"

#include <algorithm>

#include "base/strings.h"
#include "server/keys/key_file.h"

namespace pagoda {

std::string_view tenant_of(const ApiKey& key, std::string_view peer) {
  return key.entry.name == kAnonymous ? peer : std::string_view(key.entry.name);
}

Status apply_key(const ApiKey& key, std::string_view peer, bool isolate, std::span<Request> requests) {
  const KeyEntry& entry = key.entry;
  for (Request& request : requests) {
    if (entry.max_priority && request.priority < *entry.max_priority)
      return invalid_argument(
                 concat("This key may only use priorities of ", *entry.max_priority, " or more."))
          .with_param("priority");
    request.tenant = tenant_of(key, peer);
    request.weight = entry.weight;
    // Names contain no slash, so salts of different keys are never equal, whatever the clients send.
    if (isolate) request.cache_salt = concat(entry.name, "/", request.cache_salt);
  }
  return ok_status();
}

TokenNeed tokens_needed(std::span<const Request> requests) {
  TokenNeed need;
  for (const Request& request : requests) {
    const auto prompt = static_cast<std::int64_t>(request.prompt_token_ids.size());
    const std::int64_t answers =
        request.work.pools() ? 0 : std::int64_t{request.sampling.width()} * request.sampling.max_tokens;
    need.prompts += prompt;
    need.all += prompt + std::max<std::int64_t>(answers, 0);
  }
  return need;
}

}  // namespace pagoda
