#pragma once
// read_cache_hint(): reads how long and how strongly a client wants its K/V cached, in all protocols' fields:
// "cache_hint" {session, ttl, priority, pin_until}; "prompt_cache_key" and "prompt_cache_retention" (OpenAI);
// "cache_control" {type, ttl} of the request, of blocks and of tools (Anthropic). Threads: any.
#include "api/field_reader.h"
#include "request/cache_hint.h"

namespace pagoda {

// "cache_hint" takes precedence over the others, field by field. Errors are reported through `fields`.
CacheHint read_cache_hint(FieldReader& fields);

}  // namespace pagoda
