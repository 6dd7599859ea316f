#pragma once
// A token's log-probability as OpenAI, Ollama and llama.cpp write it. Threads: any.
#include <string>

#include "api/json.h"
#include "request/request_output.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// JSON has no infinity; -9999 is what OpenAI and vLLM put for "impossible".
float writable_logprob(float logprob);

struct LogprobForm {
  bool with_top = true;           // the likeliest tokens as well
  bool with_ids = false;          // "id"
  bool tokens_as_ids = false;     // "token" is "token_id:ID" and not its text
  bool as_probabilities = false;  // llama.cpp's "prob" and "top_probs", not "logprob" and "top_logprobs"
};
// A token's "token", as valid UTF-8.
std::string written_token(TokenId token, const Tokenizer& tokenizer, bool as_id);
// An object of "token", "logprob", "bytes" and what `form` asks for.
void write_token_logprobs(JsonWriter& writer, const TokenLogprobs& token, const Tokenizer& tokenizer,
                          LogprobForm form);

}  // namespace pagoda
