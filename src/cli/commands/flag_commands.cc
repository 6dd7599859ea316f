#include "cli/commands/flag_commands.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "base/version.h"
#include "cli/commands/models_page.h"
#include "cli/exit_code.h"
#include "cli/flags/config_file.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/store_flags.h"
#include "cli/flags/suggest.h"
#include "cli/flags/texts_of_flags.h"

namespace pagoda {
namespace {

Status print(const std::string& text) {
  const bool good =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return good ? ok_status() : internal_error("cannot write to standard output");
}

std::string with_dashes(std::string text) {
  std::replace(text.begin(), text.end(), ' ', '-');
  return text;
}

}  // namespace

std::vector<Flag> completion_flags(CompletionArgs& args) {
  return {{.positional = "SHELL",
           .value = flags::choice(args.shell, {"bash", "zsh", "fish"}),
           .help = "shell to write completions for",
           .required = true}};
}

std::vector<Flag> man_flags(ManArgs& args) {
  return {
      {.positional = "COMMAND",
       .value = flags::text(args.command, "NAME"),
       .help = "command to describe, with dashes between words: bench-serve",
       .default_text = "pagoda"},
      {.name = "output",
       .value = flags::text(args.output, "DIR"),
       .help = "write all pages into this folder"},
      {.name = "markdown",
       .value = flags::choice(args.markdown, {"flags", "peer-flags", "commands", "models"}),
       .help = "print this page of docs/ as Markdown"},
  };
}

std::vector<Flag> config_check_flags(ConfigCheckArgs& args) {
  return {{.positional = "FILE",
           .value = flags::text(args.file, "PATH"),
           .help = "YAML file for serve --config",
           .required = true}};
}

Status print_completion(const CompletionArgs& args, const Command& root) {
  return print(completion_script(args.shell, root));
}

Status print_man(const ManArgs& args, const Command& root) {
  if (args.markdown == "models") return print(models_page());
  if (args.markdown == "peer-flags") return print(peer_flags_page());
  if (!args.markdown.empty()) return print(args.markdown == "flags" ? flags_page(root) : commands_page(root));
  std::error_code error;
  if (!args.output.empty()) std::filesystem::create_directories(args.output, error);
  std::vector<std::string> names;
  for (const NamedCommand& named : all_commands(root)) {
    const std::string page = man_page(named, std::string(version()));
    const std::string name = with_dashes(named.path);
    if (!args.output.empty()) {
      const std::string path = concat(args.output, "/", name, ".1");
      std::ofstream file(path, std::ios::binary);
      file << page;
      file.close();
      if (!file) return invalid_argument(file_failure("write", path));
      continue;
    }
    const std::string wanted = args.command.empty() ? "pagoda" : "pagoda-" + with_dashes(args.command);
    if (name == wanted || with_dashes(args.command) == name) return print(page);
    names.push_back(named.path.substr(std::min(named.path.find(' '), named.path.size() - 1) + 1));
  }
  if (!args.output.empty()) return ok_status();
  return invalid_argument(concat("no command '", args.command, "'", suggestion(args.command, names)));
}

Status check_config(const ConfigCheckArgs& args, const Command& root) {
  const auto serve = std::ranges::find(root.subcommands, "serve", &Command::name);
  PAGODA_ASSIGN_OR_RETURN(const auto file, read_config_file(args.file, *serve));
  // Stores the flags as `serve` would, so that values are checked, too.
  CommandLine line{.command = &*serve, .path = "pagoda serve"};
  line.values.resize(serve->flags.size());
  for (std::size_t i = 0; i < serve->flags.size(); ++i)
    if (serve->flags[i].name == "config") line.values[i] = {args.file};
  PAGODA_RETURN_IF_ERROR(store_flags(line, [](const char*) { return std::string(); }));
  const auto count = std::ranges::count_if(file, [](const ConfigValue& value) { return value.line != 0; });
  return print(
      concat(args.file, ": ", static_cast<long long>(count), " flags, each known to pagoda serve\n"));
}

}  // namespace pagoda
