#include "cli/simulate/simulate_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/commands/progress_bar.h"
#include "cli/exit_code.h"
#include "cli/output_file.h"
#include "cli/simulate/live_out.h"
#include "cli/simulate/simulate_flags.h"
#include "cli/simulate/simulation_setup.h"
#include "load/list_workload.h"
#include "load/workload_spec.h"
#include "sim/fault_run.h"
#include "sim/replay.h"
#include "sim/summary_text.h"

namespace pagoda {
namespace {

constexpr int kCompareDraws = 16;
constexpr std::chrono::seconds kSilence{1};  // delay before the progress bar is shown

Result<std::unique_ptr<Workload>> open(const SimulateArgs& args) {
  if (!args.trace.empty() && !args.workload.empty())
    return invalid_argument("give --trace or --workload, not both");
  if (!args.trace.empty()) return open_workload("trace:" + args.trace);
  if (args.workload.empty())
    return invalid_argument(
        "a workload is required: --workload sharegpt:rate=2,duration=3600 or --trace FILE");
  return open_workload(args.workload);
}

SimulatedFaults faults_of(std::uint64_t seed) {
  return {.seed = seed,
          .drop_share = 0.1,
          .stall_share = 0.001,
          .max_stall_s = 2,
          .burst_s = 0.5,
          .failure_share = 0};
}

// Shown after a simulation has run for a second.
class LateProgressBar {
 public:
  explicit LateProgressBar(std::optional<std::int64_t> total) : total_(total) {}
  void update(std::int64_t done, double simulated_s) {
    if (!total_) return;
    if (!bar_ && std::chrono::steady_clock::now() - start_ < kSilence) return;
    if (!bar_) bar_.emplace("simulate", *total_, "requests");
    bar_->update(done, concat(fixed(simulated_s, 0), " s simulated"));
  }

 private:
  const std::optional<std::int64_t> total_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<ProgressBar> bar_;
};

Status run_replay(const SimulateArgs& args) {
  LiveOut live(args.live_out);
  std::function<void(std::shared_ptr<const EngineSnapshot>)> on_live;
  if (live.wanted()) on_live = [&live](auto state) { live.write(std::move(state)); };
  PAGODA_ASSIGN_OR_RETURN(auto report, replay(args.replay, parts_factory(args.engine), std::move(on_live)));
  PAGODA_RETURN_IF_ERROR(live.finish());
  if (!report.difference.empty())
    return invalid_argument(concat(args.replay, ": the decisions differ at ", report.difference));
  std::printf("%s: %lld steps and %lld requests replayed, every decision the same%s\n", args.replay.c_str(),
              static_cast<long long>(report.num_steps), static_cast<long long>(report.num_requests),
              report.complete ? "" : "; the log stops without its end, as when the server was killed");
  return ok_status();
}

std::vector<WorkloadRequest> completed_requests(const ReplayReport& report) {
  std::vector<WorkloadRequest> out;
  for (const ReplayedRequest& request : report.requests) {
    if (!request.completed) continue;
    WorkloadRequest& added = out.emplace_back(request.asked);
    added.output_tokens = std::max(1, added.output_tokens / std::max({1, added.n, added.beam_width}));
  }
  // Sorted, because several threads submitted the requests.
  std::ranges::sort(out, {}, &WorkloadRequest::arrival_s);
  return out;
}

Status run_compare(const SimulateArgs& args) {
  PAGODA_ASSIGN_OR_RETURN(auto cost, load_cost_model(args.cost_model));
  PAGODA_ASSIGN_OR_RETURN(auto real, replay(args.compare, parts_factory(args.engine)));
  SimulationOptions options;
  options.cost = cost;
  options.cost.outside_s = 0;  // the log has the engine's times
  options.engine = real.header.engine;
  options.modes = real.header.modes;
  options.num_blocks = real.header.num_blocks;
  options.num_swap_blocks = real.header.num_swap_blocks;
  options.make_parts = parts_factory(args.engine);
  // With scatter, a single simulation is one random draw; several draws give the expected value.
  const int draws = cost.decode_scatter.empty() ? 1 : kCompareDraws;
  std::optional<SimulationSummary> simulated;
  double steps = 0;
  for (int draw = 0; draw < draws; ++draw) {
    options.engine.seed = static_cast<std::uint64_t>(draw);
    ListWorkload workload(completed_requests(real));
    PAGODA_ASSIGN_OR_RETURN(auto one, simulate(options, workload));
    steps += static_cast<double>(one.num_steps) / draws;
    if (!simulated) {
      simulated = std::move(one);
      continue;
    }
    simulated->ttft.merge(one.ttft);
    simulated->inter_token.merge(one.inter_token);
    simulated->latency.merge(one.latency);
  }
  std::printf("%lld requests, %lld completed; seconds\n%-24s %12s %12s %9s\n",
              static_cast<long long>(std::ssize(real.requests)), static_cast<long long>(simulated->completed),
              "", "recorded", "simulated", "off by");
  const auto row = [](const char* name, double a, double b) {
    std::printf("%-24s %12.5f %12.5f %8.1f%%\n", name, a, b, a > 0 ? 100 * (b / a - 1) : 0.0);
  };
  const auto rows = [&](const std::string& name, const LatencySketch& a, const LatencySketch& b) {
    for (const double percent : {50.0, 90.0, 99.0})
      row(concat(name, " p", percent).c_str(), a.percentile(percent), b.percentile(percent));
    row(concat(name, " mean").c_str(), a.statistics().mean, b.statistics().mean);
  };
  rows("TTFT", real.ttft, simulated->ttft);
  rows("inter-token", real.inter_token, simulated->inter_token);
  rows("end-to-end", real.latency, simulated->latency);
  row("steps", static_cast<double>(real.num_steps), steps);
  return ok_status();
}

Status run_faults(const SimulateArgs& args) {
  const std::uint64_t first = args.fault_seed.value_or(1);
  ProgressBar bar("fault runs", args.fault_runs, "seeds");
  std::int64_t arrived = 0, steps = 0;
  for (std::int32_t i = 0; i < args.fault_runs; ++i) {
    PAGODA_ASSIGN_OR_RETURN(
        auto run, run_fault_seed(first + static_cast<std::uint64_t>(i), parts_factory(args.engine)));
    if (args.fault_runs == 1)
      std::printf("%s\n%s", run.description.c_str(), summary_table(run.summary).c_str());
    arrived += run.summary.arrived;
    steps += run.summary.num_steps;
    bar.update(i + 1);
  }
  std::printf("fault seeds %llu to %llu: %lld requests each ended once, %lld steps, every invariant held\n",
              static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + static_cast<std::uint64_t>(args.fault_runs) - 1),
              static_cast<long long>(arrived), static_cast<long long>(steps));
  return ok_status();
}

}  // namespace

Status run_simulate(const SimulateArgs& args) {
  if (args.fault_runs > 0) return run_faults(args);
  if (!args.replay.empty()) return run_replay(args);
  if (args.cost_model.empty())
    return invalid_argument("--cost-model is required: a name such as a100-40gb/opt-13b/tp1, or a file");
  PAGODA_ASSIGN_OR_RETURN(auto cost, load_cost_model(args.cost_model));
  if (!args.compare.empty()) return run_compare(args);
  if (args.print_cost_model) return write_output("-", cost_model_json(cost));
  PAGODA_ASSIGN_OR_RETURN(auto options, simulation_options(args.engine, cost));
  options.replicas = args.replicas;
  options.router = router_kind(args.router);
  options.max_seconds = args.max_seconds;
  if (args.offload_gb_per_s > 0) options.tiers.bytes_per_s = args.offload_gb_per_s * 1e9;
  if (args.fault_seed) {
    options.faults = faults_of(*args.fault_seed);
    options.check_invariants = true;
  }
  PAGODA_ASSIGN_OR_RETURN(auto workload, open(args));
  for (const std::string& path : {args.output_json, args.plot}) PAGODA_RETURN_IF_ERROR(check_output(path));

  std::ofstream csv;
  if (!args.output_csv.empty()) {
    csv.open(args.output_csv, std::ios::binary);
    csv << outcome_csv_header();
    if (!csv) return invalid_argument(file_failure("write", args.output_csv));
  }
  LateProgressBar bar(workload->size());
  SimulationCallbacks callbacks;
  if (csv.is_open())
    callbacks.on_outcome = [&](const SimulatedOutcome& outcome) { csv << outcome_csv_row(outcome); };
  callbacks.on_progress = [&](std::int64_t done, double seconds) { bar.update(done, seconds); };
  LiveOut live(args.live_out);
  if (live.wanted()) options.on_live = [&live](auto state) { live.write(std::move(state)); };
  PAGODA_ASSIGN_OR_RETURN(auto summary, simulate(options, *workload, callbacks));
  PAGODA_RETURN_IF_ERROR(live.finish());
  if (csv.is_open()) {
    csv.close();
    if (!csv) return invalid_argument(file_failure("write", args.output_csv));
  }
  const std::string warning = burst_warning(summary);
  if (!warning.empty()) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  PAGODA_RETURN_IF_ERROR(write_output(args.output_json, summary_json(summary, options)));
  if (!args.plot.empty()) PAGODA_RETURN_IF_ERROR(write_output(args.plot, timeline_svg(summary)));
  if (args.output_json != "-" && args.plot != "-") std::fputs(summary_table(summary).c_str(), stdout);
  return ok_status();
}

}  // namespace pagoda
