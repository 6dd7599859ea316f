#pragma once
// HeldAnswer: builds the grammar that constrains an answer, for all protocols: the requested form, forced or
// strict tool calls, the token limit of reasoning. It knows how the model's formats write these
// (text/call_shape.h) and adapts the parser options to them.
// Threads: any.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/api_context.h"
#include "base/status.h"
#include "constraint/grammar_spec.h"
#include "text/answer_parser.h"
#include "text/conversation.h"

namespace pagoda {

struct ToolChoice {
  enum class Kind { automatic, none, required, named };
  Kind kind = Kind::automatic;
  std::string name = {};  // the tool that must be called

  bool forced() const { return kind == Kind::required || kind == Kind::named; }
};

struct AnswerWishes {
  std::optional<GrammarSpec> form;  // constraint on the content
  std::span<const ToolSpec> tools;  // tools that may be called
  ToolChoice choice;
  bool parallel_calls = true;
  std::optional<std::int32_t> thinking_budget;  // tokens
};

// The grammars to try in order: the first that compiles is used. Empty: no constraint.
// `parser`: the formats of tools and reasoning, and whether the prompt has opened the reasoning; changed if
// calls are constrained. Errors name the request's fields as in OpenAI's API.
Result<std::vector<GrammarSpec>> hold_answer(const AnswerWishes& wishes, const ApiContext& context,
                                             AnswerParserOptions& parser);

}  // namespace pagoda
