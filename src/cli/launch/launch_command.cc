#include "cli/launch/launch_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/assembly/default_model.h"
#include "cli/exit_code.h"
#include "cli/flags/flag_values.h"
#include "cli/launch/launched_programs.h"
#include "cli/launch/served_model.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

std::vector<std::string> program_names() {
  std::vector<std::string> names;
  for (const LaunchedProgram& program : launched_programs()) names.emplace_back(program.name);
  return names;
}

// Quotes a word for the shell.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

Result<LaunchTarget> find_target(const LaunchArgs& args) {
  PAGODA_ASSIGN_OR_RETURN(const Url api, api_url(args.url));
  LaunchTarget target;
  target.url = api.origin() + api.target.substr(0, api.target.size() - std::strlen("/v1"));
  target.key = args.api_key;
  target.folder = concat(cache_directory(), "/launch/", args.program);
  PAGODA_ASSIGN_OR_RETURN(const ServedModel model, served_model(api, args.api_key, args.model));
  target.model = model.name;
  target.max_model_len = model.max_model_len;
  return target;
}

void print_launch(const Launch& launch, const std::vector<std::string>& command, const std::string& folder) {
  std::string out;
  for (const auto& [path, text] : launch.files) {
    out += concat("# ", folder, "/", path, ":\n# ");
    for (const char c : text) out += c == '\n' ? std::string("\n# ") : std::string(1, c);
    out.replace(out.size() - 2, 2, "\n");
  }
  for (const auto& [name, value] : launch.variables) out += concat(name, "=", shell_word(value), " \\\n");
  for (const std::string& word : command) out += concat(shell_word(word), " ");
  out.back() = '\n';
  std::fputs(out.c_str(), stdout);
}

// Files are readable by their owner only, because they may contain a key.
Status write_files(const Launch& launch, const std::filesystem::path& folder) {
  std::error_code error;
  if (launch.files.empty()) return ok_status();
  std::filesystem::create_directories(folder, error);
  if (!error) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  for (const auto& [path, text] : launch.files) {
    std::ofstream file(folder / path, std::ios::trunc);
    file << text << std::flush;
    if (error || !file) return unavailable(concat(printable((folder / path).string()), " cannot be written"));
  }
  return ok_status();
}

Status become(const LaunchedProgram& program, const Launch& launch, const std::vector<std::string>& command) {
  for (const auto& [name, value] : launch.variables) setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::fflush(nullptr);
  execvp(words.front(), words.data());
  const int reason = errno;
  if (reason == ENOENT)
    return not_found(
        concat("'", program.executable, "' is not on the PATH: install it with `", program.install, "`"));
  return unavailable(concat("'", program.executable, "' cannot be started: ", std::strerror(reason)));
}

Status launch(const LaunchArgs& args) {
  const LaunchedProgram* program = find_launched_program(args.program);
  if (program == nullptr)
    return invalid_argument(concat("'", printable(args.program), "' is not a known program"));
  PAGODA_ASSIGN_OR_RETURN(const LaunchTarget target, find_target(args));
  const Launch launch = program->tell(target);
  std::vector<std::string> command = {std::string(program->executable)};
  command.insert(command.end(), launch.arguments.begin(), launch.arguments.end());
  command.insert(command.end(), args.arguments.begin(), args.arguments.end());
  command.insert(command.end(), launch.last_arguments.begin(), launch.last_arguments.end());
  if (args.print) {
    print_launch(launch, command, target.folder);
    return ok_status();
  }
  PAGODA_RETURN_IF_ERROR(write_files(launch, target.folder));
  return become(*program, launch, command);
}

}  // namespace

std::vector<Flag> launch_flags(LaunchArgs& args) {
  return {
      {.positional = "PROGRAM",
       .value = flags::choice(args.program, program_names()),
       .help = "program to start",
       .required = true},
      {.positional = "ARGUMENT",
       .value = flags::several(args.arguments, "TEXT"),
       .help = "arguments for the program; put those that begin with a dash after --"},
      {.name = "model",
       .value = flags::text(args.model, "NAME"),
       .help = "name of the model on the server",
       .default_text = "the first one listed",
       .aliases = {"-m"}},
      {.name = "url",
       .value = flags::text(args.url, "URL"),
       .help = "URL of the running server",
       .environment = true},
      {.name = "api-key",
       .value = flags::text(args.api_key, "KEY"),
       .help = "API key for the server",
       .secret = true,
       .environment = true},
      {.name = "print", .value = flags::on(args.print), .help = "print the command instead of running it"},
  };
}

int run_launch(const LaunchArgs& args) { return exit_code(launch(args)); }

}  // namespace pagoda
