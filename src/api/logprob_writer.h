#pragma once
// A token's log-probability as OpenAI's chat and Ollama write it. Threads: any.
#include <string_view>

#include "api/json.h"
#include "request/request_output.h"

namespace pagoda {

// JSON has no infinity; -9999 is what OpenAI and vLLM put for "impossible".
float writable_logprob(float logprob);

// "token", "logprob" and "bytes" of an object that the caller has begun. `text` is valid UTF-8.
void write_token_logprob(JsonWriter& writer, const TokenLogprob& token, std::string_view text,
                         std::string_view bytes);

}  // namespace pagoda
