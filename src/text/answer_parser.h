#pragma once
// AnswerParser: a model's text, as it is written -> reasoning, content and tool calls. It knows the formats
// of models (answer_formats.h has vLLM's names) and no protocol; it is no detokenizer and no grammar.
//     {text, token, special} --> reasoning format --> tool format --> events
//   * Events, joined by kind and call, are the same wherever the text is cut. A possible marker is held back
//     until it is certain; text that turns out to be no call becomes content; white space between the parts
//     is markup.
//   * A call is told when it is complete, or piecewise if a grammar holds it.
// Cost: linear in the text. Memory: the undecided text. Source: vLLM's tool and reasoning parsers;
// docs/tools.md lists the exceptions. Threads: none; one answer's owner.
#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "request/request.h"
#include "text/call_shape.h"

namespace pagoda {

// A piece of the answer, as the detokenizer gives it, special tokens written out.
struct AnswerPiece {
  std::string_view text;
  std::optional<TokenId> token;  // absent: text alone, whose markers are known by their spelling
  bool special = false;          // the token is a special one: harmony's markers count only where it is
};

struct AnswerEvent {
  enum class Kind {
    reasoning,       // `text` continues the reasoning
    content,         // `text` continues the visible answer
    call_begun,      // `text` is the function's name; call_id is the model's own id, where the format has one
    call_arguments,  // `text` continues the arguments: JSON, unless the model wrote something else
    call_ended,
  };
  Kind kind;
  std::int32_t call = -1;  // which call of this answer, from 0; -1 where it is none
  std::string text = {};
  std::string call_id = {};

  bool operator==(const AnswerEvent&) const = default;
};

// A tool that the request declares. Formats that write bare text take the types of arguments from its schema.
struct DeclaredTool {
  std::string name;
  boost::json::object parameters;  // JSON Schema; may be empty
};

struct AnswerParserOptions {
  std::string tool_parser;       // a name of answer_formats.h; empty: tool markup is plain text
  std::string reasoning_parser;  // likewise
  // Shared, so that every choice of an answer reads with the same ones. Null: none.
  std::shared_ptr<const std::vector<DeclaredTool>> tools;
  bool keep_special_tokens = false;  // those that no format means something by are text; else left out
  // Given: a grammar holds the calls to this shape of the format's: arguments are told as written.
  const CallShape* held_shape = nullptr;
  // The grammar lets nothing but calls be written: what is left of a call that was cut off is no content.
  bool calls_forced = false;
  bool calls_allowed = true;  // false (tool_choice none): tool markup stays content
  // Whether the prompt has already opened the reasoning (prompt_opens_reasoning in answer_formats.h). Absent:
  // what the format's models usually do.
  std::optional<bool> starts_in_reasoning;
};

class AnswerParser {
 public:
  // invalid_argument, naming the flag, for a name that no format has.
  static Result<AnswerParser> create(AnswerParserOptions options);
  ~AnswerParser();
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;

  // Appends to `events` what is now certain.
  void push(const AnswerPiece& piece, std::vector<AnswerEvent>& events);
  // The answer is over: settles what is open. Nothing may be pushed afterwards.
  void finish(std::vector<AnswerEvent>& events);

 private:
  struct Pipeline;
  explicit AnswerParser(std::unique_ptr<Pipeline> pipeline);
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace pagoda
