// The main path of the program: parse, store the flags, run the command.
#include "cli/cli.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "base/version.h"
#include "cli/command_table.h"
#include "cli/environment_variable.h"
#include "cli/exit_code.h"
#include "cli/flags/help.h"
#include "cli/flags/parse_command_line.h"
#include "cli/flags/store_flags.h"
#include "cli/flags/wipe_secrets.h"
#include "cli/serve/log_level.h"
#include "loader/mapped_file.h"

namespace pagoda {
namespace {

Status configure_logging() {
  const char* value = std::getenv("PAGODA_LOGGING_LEVEL");
  if (value == nullptr || *value == '\0') value = std::getenv("VLLM_LOGGING_LEVEL");
  if (value == nullptr || *value == '\0') return ok_status();
  return set_log_level_by_name(value).annotate("PAGODA_LOGGING_LEVEL");
}

// Returns the names of all environment variables.
std::vector<std::string> variable_names() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

// `pagoda help COMMAND` and `pagoda version`, which users often type, are converted to flags.
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> out(argv + 1, argv + argc);
  if (!out.empty() && out.front() == "version") out.front() = "--version";
  if (!out.empty() && out.front() == "help") {
    out.erase(out.begin());
    out.emplace_back("--help");
  }
  return out;
}

}  // namespace

int run_cli(int argc, char** argv) {
  // If a mapped model file shrinks, the program ends with a message instead of a signal.
  install_sigbus_handler();
  const Command root = command_table();
  const auto line = parse_command_line(root, arguments_of(argc, argv));
  wipe_secrets(root, argc, argv);
  if (!line) return exit_code(line.error());
  if (line->wanted == CommandLine::Wanted::version) {
    std::printf("pagoda %s\n", std::string(version()).c_str());
    return 0;
  }
  if (line->wanted == CommandLine::Wanted::help || !line->command->run) {
    const bool asked = line->wanted == CommandLine::Wanted::help;
    const std::size_t width = terminal_width(std::getenv("COLUMNS"), asked ? STDOUT_FILENO : STDERR_FILENO);
    std::fputs(help_text(line->path, *line->command, width).c_str(), asked ? stdout : stderr);
    return asked ? 0 : kExitUsage;
  }
  if (const Status status = store_flags(*line, environment_variable); !status.ok()) return exit_code(status);
  if (const Status status = configure_logging(); !status.ok()) return exit_code(status);
  if (std::ranges::any_of(line->command->flags, &Flag::environment))
    for (const std::string& warning : unknown_variables(variable_names(), root)) log_warning("cli", warning);
  return line->command->run();
}

}  // namespace pagoda
