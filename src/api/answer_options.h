#pragma once
// AnswerOptions: the options of a call's answer, independent of protocols. Plain data.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/tool_origins.h"
#include "request/ids.h"
#include "request/request_adapter.h"
#include "text/answer_parser.h"

namespace pagoda {

struct PromptInfo {
  std::string text;  // as the client sent it, or decoded from ids; only when the answer repeats it
  std::vector<TokenId> token_ids;
};

struct AnswerOptions {
  std::int32_t n = 1;                    // choices per prompt
  std::optional<std::int32_t> logprobs;  // alternatives per token
  bool after_sampling = false;           // they are probabilities of what is drawn from (llama.cpp's)
  bool content_logprobs = false;         // only of tokens that make content: no reasoning, no calls, no ends
  bool return_token_ids = false;
  bool without_generation = false;  // only the prompt is wanted: generated tokens are not returned
  bool skip_special_tokens = true;
  std::vector<std::string> stop;
  bool include_stop = false;
  std::int32_t min_tokens = 0;
  std::vector<PromptInfo> prompts;
  AdapterCatalog::Handle adapter = nullptr;  // that it is computed with; null: none
  // Parser of reasoning and tool calls in the text; absent: all of it is content.
  std::optional<AnswerParserOptions> parser;
  ToolOrigins origins = {};       // tools whose calls the client knows under other names than the model
  bool parallel_calls = true;     // false: only the first call is returned
  bool include_reasoning = true;  // false: reasoning is parsed and not returned
};

}  // namespace pagoda
