#pragma once
// Arguments -> the command they name and the texts given to its flags. Stores nothing: see store_flags.h.
// Names may be written with _ for -, as vLLM takes them. The parser is CLI11, which only
// parse_command_line.cc sees.
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/flag.h"

namespace pagoda {

struct CommandLine {
  enum class Wanted { run, help, version };
  Wanted wanted = Wanted::run;
  const Command* command = nullptr;
  std::string path = {};  // "pagoda bench serve"
  // By flag of `command`: what was given, in order; of switches "true" or "false".
  std::vector<std::vector<std::string>> values = {};
};

// invalid_argument, in one line: an unknown command or flag, with the nearest known one; a flag without its
// value; a word too many. `arguments` without the program's name. `root` must outlive the result.
Result<CommandLine> parse_command_line(const Command& root, std::vector<std::string> arguments);

}  // namespace pagoda
