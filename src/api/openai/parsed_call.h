#pragma once
// ParsedCall: one call of OpenAI's protocol, understood and checked: the engine requests it becomes, and how
// its answer is to look. Plain data; made by request_parser.h, answered by response_builder.h.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_options.h"
#include "api/warnings.h"
#include "constraint/grammar_spec.h"
#include "request/request.h"

namespace pagoda {

enum class CallKind { completion, chat };

struct ResponseOptions : AnswerOptions {
  CallKind kind = CallKind::completion;
  std::string id;            // "cmpl-…", "chatcmpl-…"
  std::int64_t created = 0;  // unix seconds
  bool stream = false;
  bool include_usage = false;     // one more chunk, with the usage of all
  bool continuous_usage = false;  // usage in every chunk
  bool echo = false;
  std::string echo_prefix;          // chat: the message that is being continued
  bool cumulative_logprob = false;  // for each choice, even without logprobs
  bool prompt_logprobs = false;     // in vLLM's form
  bool tokens_as_ids = false;       // "token_id:17" instead of a token's text
  bool for_remote_decode = false;   // another server goes on with its K/V (vLLM's kv_transfer_params)
};

struct ParsedCall {
  std::vector<Request> requests;      // one per prompt; ids and arrival times are the submitter's to fill in
  std::optional<double> timeout_s;    // how long the client waits for the answer
  std::vector<GrammarSpec> grammars;  // that hold the answers: the first that compiles
  ResponseOptions response;
  Warnings warnings;
};

}  // namespace pagoda
