#pragma once
// ParsedCall: one call of OpenAI's protocol, parsed and checked: its engine requests, and the options of its
// answer. Plain data; made by request_parser.h, answered by response_builder.h.
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
  bool include_usage = false;     // adds a chunk with the total usage
  bool continuous_usage = false;  // usage in every chunk
  bool echo = false;
  std::string echo_prefix;          // chat: the message being continued
  bool cumulative_logprob = false;  // for each choice, even without logprobs
  bool prompt_logprobs = false;     // in vLLM's form
  bool tokens_as_ids = false;       // "token_id:17" instead of a token's text
  bool for_remote_decode = false;   // another server continues from its K/V (vLLM's kv_transfer_params)
};

struct ParsedCall {
  std::vector<Request> requests;      // one per prompt; ids and arrival times are filled in by the submitter
  std::optional<double> timeout_s;    // how long the client waits for the answer
  std::vector<GrammarSpec> grammars;  // alternatives for the constraint; the first that compiles
  ResponseOptions response;
  Warnings warnings;
};

}  // namespace pagoda
