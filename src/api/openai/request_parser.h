#pragma once
// Bodies of /v1/completions and /v1/chat/completions -> ParsedCall: types, ranges, tokens, length. OpenAI's
// fields and vLLM's extensions; unknown fields are ignored; unsupported features are refused by name. Renders
// templates and tokenizes, so it must not run on I/O threads.
// Errors name the field by its dotted path. Threads: any.
#include <cstdint>
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "api/openai/parsed_call.h"
#include "base/status.h"

namespace pagoda {

struct CallOrigin {
  std::string id;            // unique part of the answer's id; overridden by a request_id in the body
  std::int64_t created = 0;  // unix seconds
};

Result<ParsedCall> parse_call(CallKind kind, std::string_view body, const CallOrigin& origin,
                              const ApiContext& context);

}  // namespace pagoda
