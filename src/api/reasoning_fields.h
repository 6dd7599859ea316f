#pragma once
// Reads how much a model should reason, from the fields of all clients: "reasoning_effort", "enable_thinking"
// and "thinking_token_budget" (OpenAI, vLLM), "thinking" {type, budget_tokens} (Anthropic, Z.ai, DeepSeek),
// "reasoning" {effort, enabled, max_tokens, exclude} (OpenAI, OpenRouter). Threads: none.
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "api/field_reader.h"

namespace pagoda {

struct ReasoningWish {
  std::optional<bool> thinks;
  bool adaptive = false;  // the server's default takes precedence over `thinks`
  std::optional<std::string> effort;
  std::optional<std::int32_t> budget;  // tokens
  bool budget_is_rule = false;         // true: refuse if it cannot be enforced; false: best effort
  bool is_returned = true;             // false: reasoning is parsed but not returned to the client

  // Sets the chat template's variables in `kwargs`, whose existing entries take precedence. `server`: the
  // server's default variables.
  void add_template_variables(boost::json::object& kwargs, const boost::json::object& server) const;
};

// Reads all of these fields; later fields take precedence. Errors are reported through `fields`.
ReasoningWish read_reasoning_wish(FieldReader& fields);

}  // namespace pagoda
