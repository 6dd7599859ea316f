#include "cli/serve/log_level.h"

#include <algorithm>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/command_table.h"
#include "cli/flags/config_file.h"

namespace pagoda {
namespace {

// Returns --log-level from the file; empty if it is not set.
Result<std::string> level_in(const std::string& config) {
  const Command root = command_table();
  const auto serve = std::ranges::find(root.subcommands, "serve", &Command::name);
  CHECK(serve != root.subcommands.end());
  PAGODA_ASSIGN_OR_RETURN(const auto values, read_config_file(config, *serve));
  for (std::size_t i = 0; i < serve->flags.size(); ++i)
    if (serve->flags[i].name == "log-level" && !values[i].values.empty()) return values[i].values.back();
  return std::string();
}

}  // namespace

Status set_log_level_by_name(const std::string& name) {
  std::string upper = name;
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  if (upper == "DEBUG")
    set_log_level(LogLevel::debug);
  else if (upper == "INFO")
    set_log_level(LogLevel::info);
  else if (upper == "WARNING" || upper == "WARN")
    set_log_level(LogLevel::warning);
  else if (upper == "ERROR" || upper == "CRITICAL")
    set_log_level(LogLevel::error);
  else
    return invalid_argument(concat("'", name, "' is not DEBUG, INFO, WARNING or ERROR"));
  return ok_status();
}

LogLevelReload::LogLevelReload(const EngineFlags& flags) : first_(flags.server.log_level) {
  if (flags.config.empty()) return;
  const Result<std::string> level = level_in(flags.config);
  if (level && *level == first_) config_ = flags.config;
}

void LogLevelReload::operator()() const {
  if (config_.empty()) return;
  Result<std::string> level = level_in(config_);
  Status status = level ? ok_status() : level.error();
  if (level && level->empty()) level = first_.empty() ? "info" : first_;
  if (level) status = set_log_level_by_name(*level);
  if (!status.ok())
    log_error("server", concat("the log level was not changed: ", status.message()));
  else
    log_warning("server", concat("log level: ", *level));  // visible at both levels
}

}  // namespace pagoda
