#pragma once
// The text of --help: usage, subcommands, then the flags by group with their defaults, wrapped to a width.
#include <cstddef>
#include <string>

#include "cli/flags/flag.h"

namespace pagoda {

// `path` is the command as typed: "pagoda serve".
std::string help_text(const std::string& path, const Command& command, std::size_t width);

// Width of the terminal: $COLUMNS, else that of the file descriptor, else 80.
std::size_t terminal_width(const char* columns, int terminal);

// Breaks `text` into lines that end before `width`, with `indent` spaces before each; words are never split.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width);

// The usage line, which other texts use, too: "pagoda serve [MODEL] [FLAGS]".
std::string usage_line(const std::string& path, const Command& command);

// "-i, --input FILE", "--[no-]enable-prefix-caching".
std::string flag_heading(const Flag& flag);

// The flag -h, which every command has.
Flag help_flag();

}  // namespace pagoda
