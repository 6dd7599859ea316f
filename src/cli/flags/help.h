#pragma once
// The text of --help: usage, subcommands, then the flags by group, each on one line with its default.
#include <string>

#include "cli/flags/flag.h"

namespace pagoda {

// `path` is what is typed for the command: "pagoda serve".
std::string help_text(const std::string& path, const Command& command);

// Parts of it that other texts share: "pagoda serve [MODEL] [FLAGS]".
std::string usage_line(const std::string& path, const Command& command);

// "-i, --input FILE", "--[no-]enable-prefix-caching".
std::string flag_heading(const Flag& flag);

// -h, which every command has.
Flag help_flag();

}  // namespace pagoda
