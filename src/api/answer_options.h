#pragma once
// AnswerOptions: the options of a call's answer, independent of the protocol. Plain data.
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
  std::string text;  // as sent by the client, or decoded from ids; set only if the answer echoes it
  std::vector<TokenId> token_ids;
};

struct AnswerOptions {
  std::int32_t n = 1;                    // choices per prompt
  std::optional<std::int32_t> logprobs;  // alternatives per token
  bool after_sampling = false;           // probabilities after temperature, top-k etc. (llama.cpp)
  bool content_logprobs = false;         // only for content tokens: not reasoning, tool calls or end tokens
  bool return_token_ids = false;
  bool without_generation = false;  // only the prompt is processed; generated tokens are not returned
  bool skip_special_tokens = true;
  std::vector<std::string> stop;
  bool include_stop = false;
  std::int32_t min_tokens = 0;
  std::vector<PromptInfo> prompts;
  AdapterCatalog::Handle adapter = nullptr;  // adapter to compute with; null if none
  // Parser for reasoning and tool calls in the text. nullopt: all text is content.
  std::optional<AnswerParserOptions> parser;
  ToolOrigins origins = {};       // tools that the client knows under other names than the model
  bool parallel_calls = true;     // false: only the first call is returned
  bool include_reasoning = true;  // false: reasoning is parsed but not returned
};

}  // namespace pagoda
