#pragma once
// CallShape: how a tool format writes its calls, to the letter, so that a grammar can hold them and a reader
// can tell arguments while they are written. Not how calls are read that nothing holds (answer_parser.h).
//
//     section_begin  begin NAME middle ARGUMENTS end  separator  begin NAME middle …  section_end
//
// Threads: any.
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace pagoda {

struct CallShape {
  std::string_view tool_parser;         // vLLM's name of the format
  std::string_view begin;               // before the name
  std::string_view middle;              // between the name and the arguments; "{name}" in it: the name again
  std::string_view end;                 // behind the arguments
  std::string_view section_begin = {};  // around all calls; empty: none
  std::string_view section_end = {};
  std::string_view separator = {};
  // How arguments are written: JSON, or a form of api/call_arguments.h.
  std::string_view style = "json";
  bool repeats = true;  // there may be several calls
  bool marked = true;   // its first bytes are no ordinary text, so that a call among text can be told

  std::string_view mark = {};   // part of their beginning that no text has by chance; empty: all of it
  std::string_view token = {};  // models write so whose vocabulary has this token; empty: whatever it has
  // Its markers are tokens of the vocabulary: what spells them is text (harmony).
  bool by_token = false;

  // The text that begins the calls, from which on a grammar holds them.
  std::string_view opening() const { return section_begin.empty() ? begin : section_begin; }
  std::string_view trigger() const { return mark.empty() ? opening() : mark; }
};

std::span<const CallShape> call_shapes();
using KnowsToken = std::function<bool(std::string_view)>;
// Null: the format has none here; a call that has to be held is then written as hermes writes it.
const CallShape* find_call_shape(std::string_view tool_parser, const KnowsToken& knows_token);
const CallShape& hermes_call_shape();

// How a model writes its reasoning, likewise.
struct ReasoningShape {
  std::string_view begin;
  std::string_view end;
  std::vector<std::string_view> more_ends = {};
  std::string_view behind = {};        // has to follow its end
  std::string_view answer_begin = {};  // before an answer that is no call
  bool by_token = false;               // as of calls
};
// The shape of one of --reasoning-parser's formats, or of a tool format that reads whole messages; empty
// begin and end: it cannot be held.
ReasoningShape reasoning_shape(std::string_view parser);

}  // namespace pagoda
