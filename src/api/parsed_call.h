#pragma once
// ParsedCall: one API call, understood and checked: the engine requests it becomes, and how its answer
// is to look. Plain data; made by request_parser.h, answered by response_builder.h.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "request/request.h"

namespace pagoda {

enum class CallKind { completion, chat };

struct PromptInfo {
  std::string text;  // as the client sent it, or decoded from ids; only when echo needs it
  std::vector<TokenId> token_ids;
};

struct ResponseOptions {
  CallKind kind = CallKind::completion;
  std::string id;            // "cmpl-…", "chatcmpl-…"
  std::int64_t created = 0;  // unix seconds
  bool stream = false;
  bool include_usage = false;     // one more chunk, with the usage of all
  bool continuous_usage = false;  // usage in every chunk
  bool echo = false;
  std::string echo_prefix;               // chat: the message that is being continued
  bool without_generation = false;       // echo with max_tokens 0: nothing is generated
  std::int32_t n = 1;                    // choices per prompt
  std::optional<std::int32_t> logprobs;  // alternatives per token
  bool cumulative_logprob = false;       // of each choice, even without logprobs
  bool prompt_logprobs = false;          // in vLLM's form
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // "token_id:17" instead of a token's text
  bool skip_special_tokens = true;
  std::vector<std::string> stop;
  bool include_stop = false;
  std::int32_t min_tokens = 0;
  std::vector<PromptInfo> prompts;
};

struct ParsedCall {
  std::vector<Request> requests;  // one per prompt; ids and arrival times are the submitter's to fill in
  ResponseOptions response;
};

}  // namespace pagoda
