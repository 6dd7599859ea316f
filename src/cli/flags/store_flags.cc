#include "cli/flags/store_flags.h"

#include <algorithm>
#include <cstddef>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/flags/config_file.h"

namespace pagoda {
namespace {

struct Given {
  std::vector<std::string> values;
  std::string source;  // as named in messages
};

// If a flag is given twice, the last value counts, as in vLLM.
Status store(const Flag& flag, const std::vector<std::string>& values) {
  if (!flag.value.takes_many()) return flag.value.store(values.back());
  for (const std::string& value : values) PAGODA_RETURN_IF_ERROR(flag.value.store(value));
  return ok_status();
}

}  // namespace

Status store_flags(const CommandLine& line, const Environment& environment) {
  const std::vector<Flag>& flags = line.command->flags;
  std::vector<Given> given(flags.size());
  std::string config;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    given[i] = {line.values[i], flags[i].spelled()};
    if (given[i].values.empty()) {
      given[i].source = environment_name(flags[i]);
      auto values = environment_value(flags[i], environment);
      if (!values) return values.error().annotate(given[i].source);
      given[i].values = *std::move(values);
    }
    if (flags[i].name == "config" && !given[i].values.empty()) config = given[i].values.back();
  }
  if (!config.empty()) {
    PAGODA_ASSIGN_OR_RETURN(const auto file, read_config_file(config, *line.command));
    for (std::size_t i = 0; i < flags.size(); ++i) {
      if (!given[i].values.empty() || file[i].values.empty()) continue;
      given[i] = {file[i].values, concat(config, ":", file[i].line, ": ", flags[i].name)};
    }
  }
  // Values of the command line are stored last, because a word (MODEL) and a flag (--model) may set the same
  // variable.
  for (const bool typed : {false, true}) {
    for (std::size_t i = 0; i < flags.size(); ++i) {
      if (given[i].values.empty()) {
        if (flags[i].required)
          return invalid_argument(flags[i].spelled() + " is required; see " + line.path + " --help");
      } else if (typed != line.values[i].empty()) {
        if (const Status status = store(flags[i], given[i].values); !status.ok())
          return status.annotate(given[i].source);
      }
    }
  }
  return ok_status();
}

}  // namespace pagoda
