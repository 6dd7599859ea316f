#pragma once
// vLLM's flags that mean nothing here. Accepted with a warning where leaving them out changes no result, so
// that a vLLM command line works; refused where going on would break what they promise.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

// Hidden. A flag that is given adds its line to `warnings`, which must outlive the rows.
std::vector<Flag> vllm_flags(std::vector<std::string>& warnings);

// Those of `vllm bench serve`.
std::vector<Flag> vllm_bench_flags(std::vector<std::string>& warnings);

}  // namespace pagoda
