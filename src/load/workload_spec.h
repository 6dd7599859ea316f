#pragma once
// Parses the specification of a workload from one line of text, and opens the workload:
//     sharegpt[:KEY=VALUE,...]  alpaca[:...]  uniform:input=A-B,output=C-D  trace:FILE[,KEY=VALUE,...]
// docs/simulator.md lists the keys. Unknown keys are errors that name the key. A workload depends only on its
// spec: equal specs give equal requests. Threads: none.
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "load/arrivals.h"
#include "load/lengths.h"
#include "load/trace_reader.h"
#include "load/workload.h"

namespace pagoda {

struct WorkloadSpec {
  enum class Source { sharegpt, alpaca, uniform, trace };
  Source source = Source::sharegpt;
  std::string trace_file;
  TraceForm form = TraceForm::detect;
  TokenRange input{512, 512}, output{128, 128};  // uniform

  std::optional<std::int64_t> num_requests;
  std::optional<double> duration_s;
  // Requests per second; infinity: all at once. Absent: a trace's own times; infinity for generators.
  std::optional<double> rate;
  double burstiness = 1;
  // Scales the gaps so that the last of num_requests arrives at exactly num_requests / rate, as vLLM's
  // benchmark does. Needs num_requests and rate.
  bool exact_duration = false;
  // Replaces the constant rate. Needs num_requests and no finite rate; not for conversations.
  std::optional<RateRamp> ramp;
  double time_scale = 1;  // traces
  // Traces: start again after the last request until there are num_requests. The prefix ids of a trace stand
  // for different tokens in each repetition.
  bool repeat_trace = false;
  std::optional<std::int64_t> requests_a_turn;  // requests per repetition, for repeat_trace; absent: all
  std::uint64_t seed = 0;
  std::int32_t max_model_len = 0;  // 0: 2048 for generators, no limit for traces

  std::int32_t n = 1, best_of = 0, beam_width = 0;  // best_of 0: n
  std::int32_t prefix_tokens = 0, num_prefixes = 1;
  std::int32_t rounds = 1, history_tokens = 1024;
  std::optional<double> new_share;  // absent: 1 / rounds
  double quantum_s = 0;
};

// invalid_argument: the message names the key and its valid values.
Result<WorkloadSpec> parse_workload_spec(std::string_view text);

// Status::reason() for a trace without times and without a rate.
inline constexpr const char* kNoArrivalTimes = "no_arrival_times";

// Opens the workload of a spec. invalid_argument: conflicting values. `trace` supplies the token counter and
// limits of a trace; form, rounds and history come from the spec.
Result<std::unique_ptr<Workload>> open_workload(const WorkloadSpec& spec, const TraceOptions& trace = {});

// Parses and opens a spec.
Result<std::unique_ptr<Workload>> open_workload(std::string_view spec, const TraceOptions& trace = {});

}  // namespace pagoda
