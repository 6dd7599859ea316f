#pragma once
// pagoda parse: parses model outputs into reasoning, content and tool calls, one JSON line each, to compare
// parsers.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct ParseArgs {
  std::string tool_parser;       // a vLLM name, or auto; empty: none
  std::string reasoning_parser;  // a vLLM name, or auto; empty: none
  std::string template_path;     // the chat template from which `auto` detects the parsers
  // JSON Lines of {"text", "tools", "tool_choice", "starts_in_reasoning", "id"}; empty: only print what
  // `auto` detects.
  std::string input;
  bool every_cut = false;  // also parse each text in pieces, cut at every position
};

std::vector<Flag> parse_flags(ParseArgs& args);
// Prints {"content", "reasoning_content", "tool_calls": [{"name", "arguments"}]}, one line per nonblank input
// line; an invalid line gives {"error": …}. Returns 0; 2 after one line on stderr if a name is unknown or the
// input cannot be read; with every_cut 1 after a line that names the first case whose result depends on the
// cut.
int run_parse(const ParseArgs& args);

}  // namespace pagoda
