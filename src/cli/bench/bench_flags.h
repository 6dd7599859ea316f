#pragma once
// The flags of bench. `args` must outlive the rows.
#include <vector>

#include "cli/bench/bench_command.h"
#include "cli/bench/bench_kv_managers.h"
#include "cli/bench/bench_serve_command.h"
#include "cli/flags/flag.h"

namespace pagoda {

std::vector<Flag> bench_latency_flags(BenchLatencyArgs& args);
std::vector<Flag> bench_throughput_flags(BenchThroughputArgs& args);
std::vector<Flag> bench_kv_managers_flags(BenchKvManagersArgs& args);
std::vector<Flag> bench_serve_flags(BenchServeArgs& args);

}  // namespace pagoda
