#pragma once
// Texts made from the rows for people and shells: completions, man pages, the pages of docs/.
// Each is a function of the command table alone: the same rows give the same text.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

// A command with what is typed for it: "pagoda bench serve".
struct NamedCommand {
  std::string path;
  const Command* command;
};

// `root` and all below it, in order. `root` must outlive the result.
std::vector<NamedCommand> all_commands(const Command& root);

// A script for bash, zsh or fish; empty for any other shell.
std::string completion_script(const std::string& shell, const Command& root);

// roff, for man(7).
std::string man_page(const NamedCommand& named, const std::string& version);

// docs/flags.md: the flags that `serve` shares with others, files of flags, environment; docs/commands.md:
// each command's own.
std::string flags_page(const Command& root);
std::string peer_flags_page();
std::string commands_page(const Command& root);

}  // namespace pagoda
