#include "library/engine_options.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/environment.h"
#include "cli/flags/peer_flags.h"
#include "cli/flags/store_flags.h"
#include "cli/flags/suggest.h"

namespace pagoda {
namespace {

Result<std::size_t> find(const std::vector<Flag>& flags, std::string name) {
  std::ranges::replace(name, '_', '-');
  const auto row = std::ranges::find(flags, name, &Flag::name);
  if (!name.empty() && row != flags.end()) return static_cast<std::size_t>(row - flags.begin());
  std::vector<std::string> names;
  for (const Flag& flag : flags) names.push_back(flag.name);
  return invalid_argument(concat("unknown option ", name, suggestion(name, names)));
}

}  // namespace

Result<EngineFlags> engine_options(const char* model,
                                   std::span<const std::pair<std::string, std::string>> options) {
  EngineFlags flags;
  flags.server.trust_request_chat_template = true;  // all requests come from the program itself
  std::vector<std::string> ignored;
  Command command{.name = "library", .summary = {}, .flags = engine_flag_table(flags)};
  std::ranges::move(peer_flags(ignored), std::back_inserter(command.flags));
  CommandLine line{.command = &command};
  line.values.resize(command.flags.size());
  for (const auto& [name, value] : options) {
    const Result<std::size_t> row = find(command.flags, name);
    if (!row) return row.error();
    const FlagValue& takes = command.flags[*row].value;
    if (!takes.takes_value() && value != "true" && value != "false")
      return invalid_argument(concat(name, ": '", value, "' is neither true nor false"));
    if (takes.shape == FlagValue::Shape::on && value == "false") continue;
    line.values[*row].push_back(value);
  }
  if (model != nullptr && *model != '\0') {
    const Result<std::size_t> row = find(command.flags, "model");
    if (!row) return row.error();
    line.values[*row] = {model};
  }
  const auto environment = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
  PAGODA_RETURN_IF_ERROR(store_flags(line, environment));
  PAGODA_RETURN_IF_ERROR(apply_environment(environment, flags));
  if (!ignored.empty()) log_warning("library", ignored_flags_text(ignored));
  // Ranks are processes forked before any thread exists, which a library cannot guarantee.
  if (flags.tensor_parallel_size != 1)
    return unimplemented("tensor_parallel_size: only `pagoda serve` runs several ranks");
  return flags;
}

}  // namespace pagoda
