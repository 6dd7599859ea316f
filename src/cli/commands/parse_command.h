#pragma once
// pagoda parse: what a model wrote -> reasoning, content and tool calls, a JSON line each, for comparing
// parsers.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct ParseArgs {
  std::string tool_parser;       // vLLM's names, or auto; empty: none
  std::string reasoning_parser;  // likewise
  std::string template_path;     // the chat template that auto is found in
  std::string input;       // empty: only what `auto` finds in the template is printed; else {"text", "tools",
                           // "tool_choice", "starts_in_reasoning", "id"} a line
  bool every_cut = false;  // also feed each text in pieces, cut at every place
};

std::vector<Flag> parse_flags(ParseArgs& args);
// {"content", "reasoning_content", "tool_calls": [{"name", "arguments"}]} on stdout, one line for each line
// that is not blank; a bad one gives {"error": …} in its place. 0; 2 after one line on stderr when a name is
// unknown or the input cannot be read; with every_cut 1 after one that names the first case whose message
// differs when it is cut.
int run_parse(const ParseArgs& args);

}  // namespace pagoda
