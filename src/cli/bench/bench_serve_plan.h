#pragma once
// The requests that the flags of `bench serve` describe, before the server has been asked anything.
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
  std::int32_t output_tokens = 0;  // every request's, instead of the data set's; 0: as it says
  bool ignore_eos = false;
};

// A number above 0, which may be inf; invalid_argument names the flag.
Result<double> parse_real(const std::string& flag, std::string_view text);

// invalid_argument: flags that do not go together, or a value that makes no sense.
Result<BenchPlan> make_plan(const BenchServeArgs& args, TokenCounter count_tokens);
Result<std::unique_ptr<Workload>> open_plan(const BenchPlan& plan);
Result<std::optional<WorkloadRequest>> first_request(const BenchPlan& plan);

}  // namespace pagoda
