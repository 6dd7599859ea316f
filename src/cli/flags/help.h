#pragma once
// The text of --help: usage, subcommands, then the flags by group with their defaults, wrapped to a width.
#include <cstddef>
#include <string>

#include "cli/flags/flag.h"

namespace pagoda {

// `path` is what is typed for the command: "pagoda serve".
std::string help_text(const std::string& path, const Command& command, std::size_t width);

// Columns of the terminal: $COLUMNS, else those of the file descriptor, else 80.
std::size_t terminal_width(const char* columns, int terminal);

// `text` with line breaks, so that lines behind `indent` spaces end before `width`; a word is never cut.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width);

// Parts of it that other texts share: "pagoda serve [MODEL] [FLAGS]".
std::string usage_line(const std::string& path, const Command& command);

// "-i, --input FILE", "--[no-]enable-prefix-caching".
std::string flag_heading(const Flag& flag);

// -h, which every command has.
Flag help_flag();

}  // namespace pagoda
