#include "cli/simulate/simulate_flags.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/check.h"
#include "cli/flags/flag_values.h"

namespace pagoda {
namespace {

Flag router_flag(std::string& router) {
  return {.name = "router",
          .value = flags::choice(router, {std::begin(kRouterNames), std::end(kRouterNames)}),
          .help = "routing of requests to replicas",
          .details =
              "routing of requests to replicas: `round-robin`, `least-loaded` (fewest requests), "
              "`prefix-aware` (the replica that has seen the prompt's beginning), `kv-aware` "
              "(vllm-router's rule over KV events)"};
}

}  // namespace

RouterKind router_kind(const std::string& name) {
  const auto* const known = std::ranges::find(kRouterNames, name);
  CHECK(known != std::end(kRouterNames));  // one of the flag's choices
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
       .help = "the cost model as JSON, and nothing else"},
      {.name = "replay",
       .value = flags::text(args.replay, "FILE"),
       .help = "replay a log of serve --record, which must come to the same decisions",
       .details = "replay a log of `serve --record` without the model; the exit code is 0 if every decision "
                  "is the same. Needs no other flag"},
      {.name = "compare",
       .value = flags::text(args.compare, "FILE"),
       .help = "compare the latencies of such a log with those simulated from its arrivals and "
               "--cost-model"},
      {.name = "workload",
       .value = flags::text(args.workload, "SPEC"),
       .help = "sharegpt, alpaca, uniform or trace:FILE, with :KEY=VALUE,... such as rate=2,duration=3600"},
      {.name = "trace",
       .value = flags::text(args.trace, "FILE"),
       .help = "a recorded workload; short for --workload trace:FILE"},
      {.name = "replicas", .value = flags::int32(args.replicas, 1, 4096), .help = "engines"},
      router_flag(args.router),
      {.name = "max-seconds",
       .value = flags::number(args.max_seconds, 0, 1e9),
       .help = "limit of simulated time; 0: until all is served"},
      {.name = "output-json",
       .value = flags::text(args.output_json, "FILE"),
       .help = "figures as JSON; -: stdout, no table"},
      {.name = "output-csv", .value = flags::text(args.output_csv, "FILE"), .help = "one line a request"},
      {.name = "plot",
       .value = flags::text(args.plot, "FILE"),
       .help = "SVG of load and memory against time"},
      {.name = "live-out",
       .value = flags::text(args.live_out, "FILE"),
       .help = "every step, for the page at / to open; of --replay, too"},
      {.name = "fault-seed",
       .value = flags::integer(0, std::numeric_limits<std::int64_t>::max(), store_seed),
       .help = "clients leave, steps stall, arrivals come in bursts; invariants are checked at every step"},
      {.name = "fault-runs",
       .value = flags::int32(args.fault_runs, 0),
       .help = "run so many small engines of every mode, drawn from --fault-seed on",
       .details = "run so many small engines of every mode, with faults of every kind, drawn from "
                  "`--fault-seed` on; a failing seed is named"},
  };
}

std::vector<Flag> plan_flags(PlanArgs& args) {
  const auto store_rate = [&args](const std::string& value) -> Status {
    const auto rate = flags::parse_number(value);
    if (!rate) return rate.error();
    if (!(*rate > 0 && *rate < 1e6)) return invalid_argument("must be above 0 and below 1e6");
    args.rate = *rate;
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
       .help = "number of replicas; the rate is searched for"},
      {.name = "seeds",
       .value = flags::int32(args.seeds, 3, 100),
       .help = "draws of the workload, from which the interval follows; the answer is the middle one"},
      {.name = "rate",
       .value = flags::parsed("X", store_rate),
       .help = "requests a second: the replicas are searched for"},
      {.name = "ttft-p99",
       .value = flags::number(args.ttft_ms, 0.001, 1e9),
       .help = "limit of the time to first token, ms"},
      {.name = "tpot-p99",
       .value = flags::number(args.tpot_ms, 0.001, 1e9),
       .help = "limit of the time per output token, ms"},
      {.name = "output-json",
       .value = flags::text(args.output_json, "FILE"),
       .help = "the answer as JSON; -: stdout, no text"},
  };
}

std::vector<Flag> calibrate_flags(CalibrateArgs& args) {
  return {
      {.name = "output",
       .value = flags::text(args.output, "FILE"),
       .help = "the cost model; -: stdout",
       .default_text = "-",
       .aliases = {"-o"}},
      {.name = "log",
       .value = flags::texts(args.logs, "FILE"),
       .help = "take the steps of a log of serve --record in place of measuring; repeatable"},
      {.name = "served",
       .value = flags::on(args.served),
       .help = "measures a server with clients, and how its steps scatter, not the engine by itself"},
      {.name = "seconds", .value = flags::number(args.seconds, 1, 86'400), .help = "with --served: of load"},
      {.name = "max-batch", .value = flags::int32(args.max_batch, 1, 256), .help = "sequences at once"},
      {.name = "max-context",
       .value = flags::int32(args.max_context, 64),
       .help = "tokens of the longest prompts"},
  };
}

}  // namespace pagoda
