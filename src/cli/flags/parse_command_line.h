#pragma once
// Parses arguments into the command they name and the texts given for its flags. Does not store values; see
// store_flags.h. Names may be written with _ instead of -, as in vLLM. The parser is CLI11, used only in
// parse_command_line.cc.
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
  // By flag of `command`: the values given, in order; "true" or "false" for switches.
  std::vector<std::vector<std::string>> values = {};
};

// invalid_argument, in one line: an unknown command or flag, with the nearest known one; a flag without its
// value; an excess word. `arguments` excludes the program's name. `root` must outlive the result.
Result<CommandLine> parse_command_line(const Command& root, std::vector<std::string> arguments);

}  // namespace pagoda
