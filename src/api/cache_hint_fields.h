#pragma once
// read_cache_hint(): clients say what the K/V of their requests are worth, in the words of all of them:
// "cache_hint" {session, ttl, priority, pin_until}; "prompt_cache_key" and "prompt_cache_retention" (OpenAI);
// "cache_control" {type, ttl} of the request, of blocks and of tools (Anthropic). Threads: any.
#include "api/field_reader.h"
#include "request/cache_hint.h"

namespace pagoda {

// "cache_hint" goes before the others, field by field. Errors are left in `fields`.
CacheHint read_cache_hint(FieldReader& fields);

}  // namespace pagoda
