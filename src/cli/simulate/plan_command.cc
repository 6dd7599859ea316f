#include "cli/simulate/plan_command.h"

#include <boost/json.hpp>
#include <cstdio>

#include "base/assign_or_return.h"
#include "base/plain_numbers.h"
#include "base/strings.h"
#include "cli/output_file.h"
#include "cli/serve/serve_command.h"
#include "cli/simulate/simulate_flags.h"
#include "cli/simulate/simulation_setup.h"
#include "load/workload_spec.h"
#include "sim/planner.h"

namespace pagoda {
namespace {

Result<PlanQuestion> question_of(const PlanArgs& args, const CostModel& cost) {
  EngineFlags flags = args.engine;
  set_serving_defaults(flags);
  PAGODA_ASSIGN_OR_RETURN(auto options, simulation_options(flags, cost));
  options.router = router_kind(args.router);
  PAGODA_ASSIGN_OR_RETURN(auto workload, parse_workload_spec(args.workload));
  if (workload.rate || workload.duration_s)
    return invalid_argument(
        "--workload: leave out rate and duration: plan searches for the one (or takes --rate) and chooses "
        "the "
        "length of its runs");
  return PlanQuestion{.options = std::move(options),
                      .workload = std::move(workload),
                      .limits = {.ttft_p99_s = args.ttft_ms / 1e3, .tpot_p99_s = args.tpot_ms / 1e3},
                      .rate = args.rate,
                      .replicas = args.replicas,
                      .num_draws = args.seeds};
}

std::string warning_of(const PlanArgs& args, const CostModel& cost, const PlanAnswer& answer) {
  std::string out = cost_model_warning(cost);
  if (!answer.narrow)
    out += concat(out.empty() ? "" : "; ", "the longest runs, with ", answer.num_requests,
                  " requests, still vary: the interval is wide");
  if (args.rate && answer.least_replicas < answer.most_replicas)
    out += concat(out.empty() ? "" : "; ", answer.least_replicas,
                  " replicas are borderline: only some draws meet the limits");
  return out;
}

std::string answer_json(const PlanArgs& args, const CostModel& cost, const PlanAnswer& answer,
                        const std::string& warning) {
  const boost::json::object out = {{"cost_model", cost.name},
                                   {"workload", args.workload},
                                   {"replicas", answer.replicas},
                                   {"rate", answer.rate},
                                   {"seeds", args.seeds},
                                   {"requests", answer.num_requests},
                                   {"replicas_interval", {answer.least_replicas, answer.most_replicas}},
                                   {"rate_interval", {answer.least_rate, answer.most_rate}},
                                   {"capacity", answer.capacity},
                                   {"warning", warning},
                                   {"ttft_p99_s", answer.ttft_p99_s},
                                   {"tpot_p99_s", answer.tpot_p99_s},
                                   {"batched_requests", answer.mean_batch},
                                   {"busy", answer.busy}};
  return plain_numbers(boost::json::serialize(out)) + "\n";
}

void print_answer(const PlanArgs& args, const CostModel& cost, const PlanAnswer& answer) {
  std::printf("%d x %s: %s %.3f req/s of %s\n", answer.replicas, cost.name.c_str(),
              args.rate ? "the fewest that meet the limits" : "at most", answer.rate, args.workload.c_str());
  const std::string interval =
      args.rate ? concat(answer.least_replicas, " to ", answer.most_replicas)
                : concat(fixed(answer.least_rate, 3), " to ", fixed(answer.most_rate, 3), " req/s");
  std::printf("%s, by %d draws of %lld requests each\n", interval.c_str(), args.seeds,
              static_cast<long long>(answer.num_requests));
  std::printf("more than %.3f req/s are beyond its capacity: the queue would grow without end\n",
              answer.capacity);
  std::printf(
      "p99 TTFT %.1f ms (limit %.0f), p99 TPOT %.2f ms (limit %.0f); %.1f requests in a step, %.0f %% busy\n",
      answer.ttft_p99_s * 1e3, args.ttft_ms, answer.tpot_p99_s * 1e3, args.tpot_ms, answer.mean_batch,
      100 * answer.busy);
}

}  // namespace

Status run_plan(const PlanArgs& args) {
  if (args.cost_model.empty())
    return invalid_argument("--cost-model is required: a name such as h100/llama-3-8b/tp1, or a file");
  PAGODA_ASSIGN_OR_RETURN(const auto cost, load_cost_model(args.cost_model));
  PAGODA_ASSIGN_OR_RETURN(const auto question, question_of(args, cost));
  PAGODA_RETURN_IF_ERROR(check_output(args.output_json));
  const auto answer =
      plan(question, [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  if (!answer) return answer.error();
  const std::string warning = warning_of(args, cost, *answer);
  if (!warning.empty()) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  PAGODA_RETURN_IF_ERROR(write_output(args.output_json, answer_json(args, cost, *answer, warning)));
  if (args.output_json != "-") print_answer(args, cost, *answer);
  return ok_status();
}

}  // namespace pagoda
