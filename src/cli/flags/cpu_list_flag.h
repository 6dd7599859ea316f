#pragma once
// --cpu-list: auto, none, or a list of cores for each rank, separated by '|'.
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

Result<CpuListFlag> parse_cpu_list_flag(const std::string& text);

}  // namespace pagoda
