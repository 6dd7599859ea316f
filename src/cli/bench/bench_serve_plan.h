#pragma once
// The requests described by the flags of `bench serve`, before any contact with the server.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cli/bench/bench_serve_command.h"
#include "load/trace_reader.h"
#include "load/workload.h"
#include "load/workload_spec.h"

namespace pagoda {

struct BenchPlan {
  WorkloadSpec spec;
  TraceOptions trace;
  std::int32_t output_tokens = 0;  // overrides the data set's lengths; 0: no override
  bool ignore_eos = false;
};

// Parses a number above 0, possibly inf; invalid_argument names the flag.
Result<double> parse_real(const std::string& flag, std::string_view text);

// invalid_argument: conflicting flags, or an invalid value.
Result<BenchPlan> make_plan(const BenchServeArgs& args, TokenCounter count_tokens);
Result<std::unique_ptr<Workload>> open_plan(const BenchPlan& plan);
Result<std::optional<WorkloadRequest>> first_request(const BenchPlan& plan);

}  // namespace pagoda
