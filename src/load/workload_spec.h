#pragma once
// A workload's parts, from one line of text, and the workload itself:
//     sharegpt[:KEY=VALUE,...]  alpaca[:...]  uniform:input=A-B,output=C-D  trace:FILE[,KEY=VALUE,...]
// docs/simulator.md has the keys. An unknown key is refused by name. A workload depends on its spec
// alone: same spec, same requests. Threads: none.
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
  // Requests a second; infinity: all at once. Absent: the trace's own times; generators: infinity.
  std::optional<double> rate;
  double burstiness = 1;
  // Stretches the gaps so that the last of num_requests arrives at num_requests / rate exactly, as vLLM's
  // benchmark does. Needs num_requests and rate.
  bool exact_duration = false;
  // Instead of a constant rate; needs num_requests and no finite rate. Not of conversations.
  std::optional<RateRamp> ramp;
  double time_scale = 1;  // traces
  // Traces: begins again after the last request until there are num_requests. Tokens of a trace's prefix ids
  // are others each time.
  bool repeat_trace = false;
  std::optional<std::int64_t> requests_a_turn;  // requests of a repetition, for repeat_trace; absent: all
  std::uint64_t seed = 0;
  std::int32_t max_model_len = 0;  // 0: 2048 for generators, no limit for traces

  std::int32_t n = 1, best_of = 0, beam_width = 0;  // best_of 0: n
  std::int32_t prefix_tokens = 0, num_prefixes = 1;
  std::int32_t rounds = 1, history_tokens = 1024;
  std::optional<double> new_share;  // absent: 1 / rounds
  double quantum_s = 0;
};

// invalid_argument: names the key and what it must be.
Result<WorkloadSpec> parse_workload_spec(std::string_view text);

// Status::reason() of a trace without times that was given no rate either.
inline constexpr const char* kNoArrivalTimes = "no_arrival_times";

// The workload of a spec. invalid_argument: values that do not go together. `trace` gives what a trace needs
// beyond the spec: its counter of tokens, its limits; form, rounds and history are the spec's.
Result<std::unique_ptr<Workload>> open_workload(const WorkloadSpec& spec, const TraceOptions& trace = {});

// Both in one.
Result<std::unique_ptr<Workload>> open_workload(std::string_view spec, const TraceOptions& trace = {});

}  // namespace pagoda
