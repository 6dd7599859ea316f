#include "cli/simulate/simulate_flags.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/assign_or_return.h"
#include "base/check.h"
#include "cli/flags/flag_values.h"

namespace pagoda {
namespace {

Flag router_flag(std::string& router) {
  return {.name = "router",
          .value = flags::choice(router, {std::begin(kRouterNames), std::end(kRouterNames)}),
          .help = "policy that assigns requests to replicas",
          .details =
              "policy that assigns requests to replicas: `round-robin`, `least-loaded` (fewest requests), "
              "`prefix-aware` (the replica that has seen the beginning of the prompt), `kv-aware` "
              "(vllm-router's rule, with KV events)"};
}

}  // namespace

RouterKind router_kind(const std::string& name) {
  const auto* const known = std::ranges::find(kRouterNames, name);
  CHECK(known != std::end(kRouterNames));  // flag parsing allows only known names
  return static_cast<RouterKind>(known - std::begin(kRouterNames));
}

std::vector<Flag> simulate_flags(SimulateArgs& args) {
  const auto store_seed = [&args](std::int64_t seed) { args.fault_seed = static_cast<std::uint64_t>(seed); };
  return {
      {.name = "cost-model",
       .value = flags::text(args.cost_model, "NAME|FILE"),
       .help = "cost model of a step: GPU/MODEL/tpN such as a100-40gb/opt-13b/tp1, or a JSON file"},
      {.name = "print-cost-model",
       .value = flags::on(args.print_cost_model),
       .help = "print the cost model as JSON and exit"},
      {.name = "replay",
       .value = flags::text(args.replay, "FILE"),
       .help = "replay a log of serve --record and check that every decision is the same",
       .details = "replay a log of `serve --record` without the model; the exit code is 0 if every decision "
                  "is the same. Needs no other flag"},
      {.name = "compare",
       .value = flags::text(args.compare, "FILE"),
       .help = "compare the latencies in such a log with simulated ones, for its arrivals and --cost-model"},
      {.name = "workload",
       .value = flags::text(args.workload, "SPEC"),
       .help = "sharegpt, alpaca, uniform or trace:FILE, with :KEY=VALUE,... such as rate=2,duration=3600"},
      {.name = "trace",
       .value = flags::text(args.trace, "FILE"),
       .help = "recorded workload; short for --workload trace:FILE"},
      {.name = "replicas", .value = flags::int32(args.replicas, 1, 4096), .help = "number of replicas"},
      router_flag(args.router),
      {.name = "max-seconds",
       .value = flags::number(args.max_seconds, 0, 1e9),
       .help = "limit of simulated time in seconds; 0: until all requests are served"},
      {.name = "kv-offloading-bandwidth",
       .value = flags::number(args.offload_gb_per_s, 0, 1e6),
       .help = "GB/s, each way, between the KV cache and --kv-offloading-size; 0: the cost model's for "
               "swapping"},
      {.name = "output-json",
       .value = flags::text(args.output_json, "FILE"),
       .help = "write the results as JSON to this file; -: stdout, without the table"},
      {.name = "output-csv",
       .value = flags::text(args.output_csv, "FILE"),
       .help = "write one line per request to this file"},
      {.name = "plot",
       .value = flags::text(args.plot, "FILE"),
       .help = "write an SVG of load and memory over time to this file"},
      {.name = "live-out",
       .value = flags::text(args.live_out, "FILE"),
       .help = "write every step to this file, for the page at / to open; also with --replay"},
      {.name = "fault-seed",
       .value = flags::integer(0, std::numeric_limits<std::int64_t>::max(), store_seed),
       .help = "inject faults: clients that leave, slow steps, bursts of arrivals; check invariants at every "
               "step"},
      {.name = "fault-runs",
       .value = flags::int32(args.fault_runs, 0),
       .help = "number of small engines to run with injected faults, from --fault-seed on",
       .details = "number of small engines of every mode to run with injected faults of every kind, from "
                  "`--fault-seed` on; a failing seed is printed"},
  };
}

std::vector<Flag> plan_flags(PlanArgs& args) {
  const auto store_rate = [&args](const std::string& value) -> Status {
    PAGODA_ASSIGN_OR_RETURN(const auto rate, flags::parse_number(value));
    if (!(rate > 0 && rate < 1e6)) return invalid_argument("must be above 0 and below 1e6");
    args.rate = rate;
    return ok_status();
  };
  return {
      {.name = "cost-model",
       .value = flags::text(args.cost_model, "NAME|FILE"),
       .help = "cost model of a step, as for simulate"},
      {.name = "workload",
       .value = flags::text(args.workload, "SPEC"),
       .help = "workload, as for simulate, without a rate"},
      router_flag(args.router),
      {.name = "replicas",
       .value = flags::int32(args.replicas, 1, 4096),
       .help = "number of replicas; the highest rate is searched for"},
      {.name = "seeds",
       .value = flags::int32(args.seeds, 3, 100),
       .help = "number of random draws of the workload; the answer is the median, with an interval"},
      {.name = "rate",
       .value = flags::parsed("X", store_rate),
       .help = "requests per second; the number of replicas is searched for"},
      {.name = "ttft-p99",
       .value = flags::number(args.ttft_ms, 0.001, 1e9),
       .help = "limit of the p99 time to first token, in ms"},
      {.name = "tpot-p99",
       .value = flags::number(args.tpot_ms, 0.001, 1e9),
       .help = "limit of the p99 time per output token, in ms"},
      {.name = "output-json",
       .value = flags::text(args.output_json, "FILE"),
       .help = "write the answer as JSON to this file; -: stdout, without the text"},
  };
}

std::vector<Flag> calibrate_flags(CalibrateArgs& args) {
  return {
      {.name = "output",
       .value = flags::text(args.output, "FILE"),
       .help = "file for the cost model; -: stdout",
       .default_text = "-",
       .aliases = {"-o"}},
      {.name = "log",
       .value = flags::texts(args.logs, "FILE"),
       .help = "use the steps in a log of serve --record instead of measuring; repeatable"},
      {.name = "served",
       .value = flags::on(args.served),
       .help =
           "measure a server with clients, and the spread of its step times, instead of the engine alone"},
      {.name = "seconds",
       .value = flags::number(args.seconds, 1, 86'400),
       .help = "duration of the load with --served, in seconds"},
      {.name = "max-batch",
       .value = flags::int32(args.max_batch, 1, 256),
       .help = "maximum number of sequences at once"},
      {.name = "max-context",
       .value = flags::int32(args.max_context, 64),
       .help = "length of the longest prompts, in tokens"},
  };
}

}  // namespace pagoda
