#pragma once
// How much a model should reason, in the fields of all clients: "reasoning_effort", "enable_thinking" and
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
  bool adaptive = false;  // `thinks`, unless the server's defaults differ
  std::optional<std::string> effort;
  std::optional<std::int32_t> budget;  // tokens
  bool budget_is_rule = false;         // true: refused if it cannot be enforced; false: best effort
  bool told = true;                    // false: reasoning is parsed, and not returned to the client

  // Sets the variables of chat templates. Existing entries of `kwargs` take precedence. `server`: the
  // server's default variables.
  void tell_template(boost::json::object& kwargs, const boost::json::object& server) const;
};

// Reads all of these fields; the later named take precedence. Errors are left in `fields`.
ReasoningWish read_reasoning_wish(FieldReader& fields);

}  // namespace pagoda
