#include "cli/simulate/plan_command.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <map>

#include "base/plain_numbers.h"
#include "base/strings.h"
#include "cli/serve/serve_command.h"
#include "cli/simulate/simulate_flags.h"
#include "cli/simulate/simulation_setup.h"
#include "load/workload_spec.h"
#include "sim/rate_search.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMostReplicas = 4096;

struct Trial {
  double rate = 0;
  std::int32_t replicas = 1;
  double ttft_p99_s = 0, tpot_p99_s = 0, mean_batch = 0, busy = 0;
  bool holds = false;
};

class Planner {
 public:
  // `draw`: which of the seeds, from 0.
  Planner(const PlanArgs& args, SimulationOptions options, std::int32_t draw)
      : args_(args), options_(std::move(options)), draw_(static_cast<std::uint64_t>(draw)) {
    options_.seed += draw_;
    options_.engine.seed += draw_;
  }

  Result<Trial> attempt(double rate, std::int32_t replicas) {
    auto spec = parse_workload_spec(args_.workload);
    if (!spec) return spec.error();
    spec->rate = rate;
    spec->seed += draw_;
    auto workload = open_workload(*spec);
    if (!workload) return workload.error();
    options_.replicas = replicas;
    auto summary = simulate(options_, **workload);
    if (!summary) return summary.error();
    if (summary->arrived == 0) return invalid_argument("--workload has no requests");
    Trial out{.rate = rate, .replicas = replicas};
    out.ttft_p99_s = summary->ttft.percentile(99);
    out.tpot_p99_s = summary->tpot.percentile(99);
    out.mean_batch = summary->requests_by_step;
    out.busy = summary->busy_s / std::max(1e-9, summary->duration_s * replicas);
    out.holds = summary->completed == summary->arrived && out.ttft_p99_s * 1e3 <= args_.ttft_ms &&
                out.tpot_p99_s * 1e3 <= args_.tpot_ms;
    std::fprintf(stderr, "%8.3f req/s on %d: p99 TTFT %.1f ms, TPOT %.2f ms: %s\n", rate, replicas,
                 out.ttft_p99_s * 1e3, out.tpot_p99_s * 1e3, out.holds ? "holds" : "too slow");
    return out;
  }

  // The highest rate that holds, to 2 %.
  Result<Trial> highest_rate() {
    std::map<double, Trial> trials;
    const auto holds = [&](double rate) -> Result<bool> {
      const auto trial = attempt(rate, args_.replicas);
      if (!trial) return trial.error();
      trials[rate] = *trial;
      return trial->holds;
    };
    const auto rate = highest_rate_that_holds(holds, static_cast<double>(args_.replicas));
    if (!rate) return rate.error();
    if (!*rate) return invalid_argument("no rate holds: even a single request is slower than the limits");
    return trials.at(**rate);
  }

  // The fewest replicas that hold the rate.
  Result<Trial> fewest_replicas() {
    std::int32_t below = 0, count = 1;  // `below` does not hold
    std::optional<Trial> best;
    while (!best) {
      auto trial = attempt(*args_.rate, count);
      if (!trial) return trial;
      if (trial->holds) {
        best = *trial;
      } else if (count == kMostReplicas) {
        return invalid_argument(
            concat("not even ", kMostReplicas, " replicas hold this rate within the limits"));
      } else {
        below = count;
        count = std::min(2 * count, kMostReplicas);
      }
    }
    while (best->replicas - below > 1) {
      auto trial = attempt(*args_.rate, below + (best->replicas - below) / 2);
      if (!trial) return trial;
      if (trial->holds)
        best = *trial;
      else
        below = trial->replicas;
    }
    return *best;
  }

 private:
  const PlanArgs& args_;
  SimulationOptions options_;
  const std::uint64_t draw_;
};

// The answers of all seeds, from least to most demanding; the middle one is the answer.
Result<std::vector<Trial>> plans_of(const PlanArgs& args, const SimulationOptions& options) {
  std::vector<Trial> out;
  for (std::int32_t draw = 0; draw < args.seeds; ++draw) {
    Planner planner(args, options, draw);
    const auto plan = args.rate ? planner.fewest_replicas() : planner.highest_rate();
    if (!plan) return plan.error();
    out.push_back(*plan);
  }
  std::ranges::sort(out, [](const Trial& a, const Trial& b) {
    return a.replicas != b.replicas ? a.replicas < b.replicas : a.rate > b.rate;
  });
  return out;
}

}  // namespace

Status run_plan(const PlanArgs& args) {
  if (args.cost_model.empty())
    return invalid_argument("give a --cost-model: a name such as h100/llama-3-8b/tp1, or a file");
  auto cost = load_cost_model(args.cost_model);
  if (!cost) return cost.error();
  EngineFlags flags = args.engine;
  set_serving_defaults(flags);
  auto options = simulation_options(flags, *cost);
  if (!options) return options.error();
  options->router = router_kind(args.router);
  const auto plans = plans_of(args, *options);
  if (!plans) return plans.error();
  const Trial &best = plans->front(), &worst = plans->back();
  const Trial* const plan = &(*plans)[plans->size() / 2];
  std::string warning = cost_model_warning(*cost);
  if (!args.rate && best.rate > kMostRate / 2)
    warning +=
        concat(warning.empty() ? "" : "; ", "all requests of the workload at once are within the limits: ",
               "its rate has no bound that so few of them show");
  if (!warning.empty()) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  if (!args.output_json.empty()) {
    const boost::json::object out = {{"cost_model", cost->name},
                                     {"workload", args.workload},
                                     {"replicas", plan->replicas},
                                     {"rate", plan->rate},
                                     {"seeds", args.seeds},
                                     {"replicas_interval", {best.replicas, worst.replicas}},
                                     {"rate_interval", {worst.rate, best.rate}},
                                     {"warning", warning},
                                     {"ttft_p99_s", plan->ttft_p99_s},
                                     {"tpot_p99_s", plan->tpot_p99_s},
                                     {"batched_requests", plan->mean_batch},
                                     {"busy", plan->busy}};
    const std::string text = plain_numbers(boost::json::serialize(out)) + "\n";
    if (args.output_json == "-") {
      std::fputs(text.c_str(), stdout);
      return ok_status();
    }
    std::ofstream file(args.output_json, std::ios::binary);
    file << text;
    file.close();
    if (!file) return invalid_argument(concat("cannot write ", args.output_json));
  }
  std::printf("%d x %s: %s %.3f req/s of %s\n", plan->replicas, cost->name.c_str(),
              args.rate ? "the fewest that hold" : "at most", plan->rate, args.workload.c_str());
  if (args.seeds > 1 && args.rate)
    std::printf("over %d draws of the workload: %d to %d\n", args.seeds, best.replicas, worst.replicas);
  else if (args.seeds > 1)
    std::printf("over %d draws of the workload: %.3f to %.3f req/s\n", args.seeds, worst.rate, best.rate);
  std::printf(
      "p99 TTFT %.1f ms (limit %.0f), p99 TPOT %.2f ms (limit %.0f); %.1f requests in a step, %.0f %% busy\n",
      plan->ttft_p99_s * 1e3, args.ttft_ms, plan->tpot_p99_s * 1e3, args.tpot_ms, plan->mean_batch,
      100 * plan->busy);
  return ok_status();
}

}  // namespace pagoda
