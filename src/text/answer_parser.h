#pragma once
// AnswerParser: splits a model's text, as it is generated, into reasoning, content and tool calls. It knows
// the models' formats (answer_formats.h has vLLM's names) but no protocol or grammar; does not detokenize.
//     {text, token, special} --> reasoning format --> tool format --> events
//   * Events, joined by kind and call, are the same wherever the text is split. A possible marker is held
//     back until it is certain; text that turns out not to be a call becomes content; white space between the
//     parts is markup.
//   * A call is reported when it is complete, or piecewise if a grammar constrains it.
// Cost: linear in the text. Memory: the undecided text. Source: vLLM's tool and reasoning parsers;
// docs/tools.md lists the exceptions. Threads: none; used by the owner of one answer.
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

// A piece of the answer as the detokenizer produces it, with special tokens spelled out.
struct AnswerPiece {
  std::string_view text;
  std::optional<TokenId> token;  // nullopt: only text; its markers are recognised by spelling
  bool special = false;          // special token: harmony's markers count only if special
};

struct AnswerEvent {
  enum class Kind {
    reasoning,  // `text` continues the reasoning
    content,    // `text` continues the visible answer
    // `text` is the function's name; call_id is the model's id for the call, if the format has one.
    call_begun,
    call_arguments,  // `text` continues the arguments: JSON, unless the model wrote something else
    call_ended,
  };
  Kind kind;
  std::int32_t call = -1;  // index of the call in this answer, from 0; -1 for other kinds
  std::string text = {};
  std::string call_id = {};

  bool operator==(const AnswerEvent&) const = default;
};

// A tool declared by the request. Formats that write arguments as bare text take their types from the schema.
struct DeclaredTool {
  std::string name;
  boost::json::object parameters;  // JSON Schema; may be empty
};

struct AnswerParserOptions {
  std::string tool_parser;       // a name from answer_formats.h; empty: tool markup is plain text
  std::string reasoning_parser;  // likewise; empty: reasoning markup is plain text
  // Shared by all choices of an answer. May be null.
  std::shared_ptr<const std::vector<DeclaredTool>> tools;
  // True: special tokens without a meaning in the format become text; false: they are dropped.
  bool keep_special_tokens = false;
  // If set, a grammar constrains calls to this shape of the format, and arguments are reported as they are
  // generated.
  const CallShape* held_shape = nullptr;
  // The grammar permits only calls: the remainder of a truncated call is not content.
  bool calls_forced = false;
  bool calls_allowed = true;  // false (tool_choice none): tool markup stays content
  // True if the prompt has already opened the reasoning (prompt_opens_reasoning in answer_formats.h).
  // nullopt: the usual behaviour of the format's models.
  std::optional<bool> starts_in_reasoning;
};

class AnswerParser {
 public:
  // invalid_argument, naming the flag, for an unknown name.
  static Result<AnswerParser> create(AnswerParserOptions options);
  ~AnswerParser();
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;

  // Appends the events that are now certain to `events`.
  void push(const AnswerPiece& piece, std::vector<AnswerEvent>& events);
  // Ends the answer and resolves undecided text. push() must not be called afterwards.
  void finish(std::vector<AnswerEvent>& events);

 private:
  struct Pipeline;
  explicit AnswerParser(std::unique_ptr<Pipeline> pipeline);
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace pagoda
