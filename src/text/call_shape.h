#pragma once
// CallShape: the exact text of a tool format's calls, so that a grammar can constrain them and a parser can
// report arguments while they are generated. Unconstrained calls are parsed by answer_parser.h.
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
  std::string_view middle;              // between the name and the arguments; "{name}" in it repeats the name
  std::string_view end;                 // after the arguments
  std::string_view section_begin = {};  // around all calls; may be empty
  std::string_view section_end = {};
  std::string_view separator = {};
  // How arguments are written: "json", or a form of api/call_arguments.h.
  std::string_view style = "json";
  bool repeats = true;  // there may be several calls
  // Its first bytes never occur in ordinary text, so that a call within text is recognisable.
  bool marked = true;

  // The part of the beginning that never occurs in text by chance; empty: the whole beginning.
  std::string_view mark = {};
  std::string_view token = {};  // used by models whose vocabulary has this token; empty: any vocabulary
  // Markers are tokens of the vocabulary; the same characters spelled out are text (harmony).
  bool by_token = false;

  // The text that begins the calls; a grammar applies from there on.
  std::string_view opening() const { return section_begin.empty() ? begin : section_begin; }
  std::string_view trigger() const { return mark.empty() ? opening() : mark; }
};

std::span<const CallShape> call_shapes();
using KnowsToken = std::function<bool(std::string_view)>;
// Null if the format has no shape for this vocabulary; a constrained call is then written in hermes's shape.
const CallShape* find_call_shape(std::string_view tool_parser, const KnowsToken& knows_token);
const CallShape& hermes_call_shape();

// The exact text around a model's reasoning.
struct ReasoningShape {
  std::string_view begin;
  std::string_view end;
  std::vector<std::string_view> more_ends = {};
  std::string_view behind = {};        // required after the end marker
  std::string_view answer_begin = {};  // precedes an answer without calls
  bool by_token = false;               // as in CallShape
};
// The shape of a --reasoning-parser format, or of a tool format that parses whole messages. Empty `begin` and
// `end` if the reasoning cannot be constrained.
ReasoningShape reasoning_shape(std::string_view parser);

}  // namespace pagoda
