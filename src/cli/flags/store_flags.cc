#include "cli/flags/store_flags.h"

#include <cstddef>

#include "base/strings.h"

namespace pagoda {
namespace {

// Given twice, the last counts, as for vLLM.
Status store(const Flag& flag, const std::vector<std::string>& values) {
  if (!flag.value.takes_many()) return flag.value.store(values.back());
  for (const std::string& value : values) PAGODA_RETURN_IF_ERROR(flag.value.store(value));
  return ok_status();
}

}  // namespace

Status store_flags(const CommandLine& line) {
  for (std::size_t i = 0; i < line.command->flags.size(); ++i) {
    const Flag& flag = line.command->flags[i];
    if (line.values[i].empty()) {
      if (flag.required) return invalid_argument(flag.spelled() + " is required");
      continue;
    }
    if (const Status status = store(flag, line.values[i]); !status.ok())
      return status.annotate(flag.spelled());
  }
  return ok_status();
}

}  // namespace pagoda
