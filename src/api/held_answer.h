#pragma once
// HeldAnswer: what a grammar has to hold an answer to, put together for all protocols: the form that was
// asked for, calls of tools that must come or are to be strict, how long the reasoning may be. It knows how
// the model's formats write these (text/call_shape.h), and gives the parser what it has to know of it.
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
  std::optional<GrammarSpec> form;  // form of the content
  std::span<const ToolSpec> tools;  // that may be called
  ToolChoice choice;
  bool parallel_calls = true;
  std::optional<std::int32_t> thinking_budget;  // tokens
};

// The grammars to try in this order: the first that compiles holds the answer. None: nothing is to be held.
// `parser` says how the answer is read, tool and reasoning formats and whether the prompt has opened the
// reasoning; it is changed where calls are held. Errors name the request's fields in OpenAI's words.
Result<std::vector<GrammarSpec>> hold_answer(const AnswerWishes& wishes, const ApiContext& context,
                                             AnswerParserOptions& parser);

}  // namespace pagoda
