#pragma once
// Writes a token's log-probability in the forms of OpenAI, Ollama and llama.cpp. Threads: any.
#include <string>

#include "api/json.h"
#include "request/request_output.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// JSON has no infinity; -9999 is what OpenAI and vLLM put for "impossible".
float writable_logprob(float logprob);

struct LogprobForm {
  bool with_top = true;           // also the most likely tokens
  bool with_ids = false;          // "id"
  bool tokens_as_ids = false;     // "token" is "token_id:ID" instead of its text
  bool as_probabilities = false;  // llama.cpp's "prob" and "top_probs" instead of "logprob" …
};
// The value of "token" for a token, as valid UTF-8.
std::string written_token(TokenId token, const Tokenizer& tokenizer, bool as_id);
// Writes an object with "token", "logprob", "bytes" and the fields selected by `form`.
void write_token_logprobs(JsonWriter& writer, const TokenLogprobs& token, const Tokenizer& tokenizer,
                          LogprobForm form);

}  // namespace pagoda
