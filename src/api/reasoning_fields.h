#pragma once
// How much a model is to reason, in the words of all clients: "reasoning_effort", "enable_thinking" and
// "thinking_token_budget" (OpenAI, vLLM), "thinking" {type, budget_tokens} (Anthropic, Z.ai, DeepSeek),
// "reasoning" {effort, enabled, max_tokens, exclude} (OpenAI, OpenRouter). Threads: none.
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "api/field_reader.h"

namespace pagoda {

struct ReasoningWish {
  std::optional<bool> thinks;
  bool adaptive = false;  // `thinks`, unless whoever runs the server has said otherwise
  std::optional<std::string> effort;
  std::optional<std::int32_t> budget;  // tokens
  bool budget_is_rule = false;         // refused where it cannot be held; else held where it can be
  bool told = true;                    // false: reasoning is read, and not shown to the client

  // In the words that templates know. What is in `kwargs` already goes first. `server`: what the server was
  // told to say for whoever says nothing.
  void tell_template(boost::json::object& kwargs, const boost::json::object& server) const;
};

// All of these fields that `fields` has; the later named go first. Errors are left in `fields`.
ReasoningWish read_reasoning_wish(FieldReader& fields);

}  // namespace pagoda
