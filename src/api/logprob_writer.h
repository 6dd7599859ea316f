#pragma once
// A token's log-probability as OpenAI, Ollama and llama.cpp write it. Threads: any.
#include <string_view>

#include "api/json.h"
#include "request/request_output.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// JSON has no infinity; -9999 is what OpenAI and vLLM put for "impossible".
float writable_logprob(float logprob);

// "token", "logprob" and "bytes" of an object that the caller has begun. `text` is valid UTF-8.
void write_token_logprob(JsonWriter& writer, const TokenLogprob& token, std::string_view text,
                         std::string_view bytes);
// An object of these and, unless it is not wanted, "top_logprobs". `with_ids`: "id" as well.
struct LogprobForm {
  bool with_top = true, with_ids = false;
};
void write_token_logprobs(JsonWriter& writer, const TokenLogprobs& token, const Tokenizer& tokenizer,
                          LogprobForm form);

}  // namespace pagoda
