#pragma once
// The text of --help: usage, subcommands, then the flags by group, each on one line with its default.
#include <string>

namespace CLI {
class App;
}

namespace pagoda {

std::string help_text(const CLI::App& command);

}  // namespace pagoda
