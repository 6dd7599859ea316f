#pragma once
// Texts generated from the rows: shell completions, man pages, the pages of docs/.
// Each is a function of the command table alone: equal rows give equal text.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

// A command and the words typed for it: "pagoda bench serve".
struct NamedCommand {
  std::string path;
  const Command* command;
};

// Returns `root` and all commands below it, in order. `root` must outlive the result.
std::vector<NamedCommand> all_commands(const Command& root);

// A script for bash, zsh or fish; empty for any other shell.
std::string completion_script(const std::string& shell, const Command& root);

// The page in roff, for man(7).
std::string man_page(const NamedCommand& named, const std::string& version);

// docs/flags.md: the flags that `serve` shares with other commands, config files, environment;
// docs/commands.md: the flags of each command.
std::string flags_page(const Command& root);
std::string peer_flags_page();
std::string commands_page(const Command& root);

}  // namespace pagoda
