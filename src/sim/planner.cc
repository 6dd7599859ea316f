#include "sim/planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "sim/rate_search.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMaxReplicas = 4096;
constexpr std::int64_t kFirstRequests = 4000, kMaxRequests = 64'000;
constexpr double kNarrow = 1.16;  // upper end / lower end of the interval
// Shares of late requests are skewed: most draws have few, one has many. The standard error estimated from a
// few draws is therefore too small when it is added to the mean.
constexpr double kSkew = 1.5;
constexpr double kAgainStep = 1.05;  // factor between rates after shorter runs gave an estimate
constexpr double kEdgeStep = 1.02;   // factor between rates in the search for the ends of the interval
// For a measured model: the minimum number of single steps, and the factor by which a plan may exceed its
// largest batch.
constexpr double kMinSteps = 200, kBeyond = 1.5;

// The 97.5 % quantile of Student's t distribution.
double student_t(std::size_t freedom) {
  constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306};
  constexpr double kNormal = 1.960;
  if (freedom <= std::size(kTable)) return kTable[freedom - 1];
  return kNormal * (1 + (kNormal * kNormal + 1) / (4 * static_cast<double>(freedom) - 2));
}

// The draws at one rate and number of replicas.
struct Trial {
  double rate = 0;
  std::int32_t replicas = 1;
  std::vector<SteadyRun> runs;

  // True if the mean share of late requests plus `errors` standard errors is within the limit.
  bool holds(double errors) const {
    return std::ranges::all_of(std::array{&SteadyRun::late_ttft, &SteadyRun::late_tpot}, [&](auto share) {
      const auto count = static_cast<double>(runs.size());
      double sum = 0, squares = 0;
      for (const SteadyRun& run : runs) sum += run.*share / count;
      for (const SteadyRun& run : runs) squares += (run.*share - sum) * (run.*share - sum);
      return sum + errors * std::sqrt(squares / (count - 1) / count) <= kLateShare;
    });
  }
  // Factor by which the runs are too short; above 1 if they are.
  double missing_turnovers() const {
    double most = 0;
    for (const SteadyRun& run : runs) most = std::max(most, run.missing_turnovers());
    return most;
  }
  double mean(double SteadyRun::* value) const {
    double sum = 0;
    for (const SteadyRun& run : runs) sum += run.*value;
    return sum / static_cast<double>(runs.size());
  }
  double p99(LatencySketch SteadyRun::* sketch) const {
    LatencySketch all;
    for (const SteadyRun& run : runs) all.merge(run.*sketch);
    return all.percentile(99);
  }
};

// Searches with runs of one length. Each rate runs once.
class Search {
 public:
  Search(const PlanQuestion& question, std::int64_t num_requests)
      : question_(question), num_requests_(num_requests) {}

  Result<const Trial*> attempt(double rate, std::int32_t replicas) {
    const auto key = std::pair(rate, replicas);
    if (const auto known = trials_.find(key); known != trials_.end()) return &known->second;
    const auto count = static_cast<std::size_t>(question_.num_draws);
    std::vector<std::optional<Result<SteadyRun>>> found(count);
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < count; ++i)
        threads.emplace_back([&, i] { found[i] = run(rate, replicas, i); });
    }
    Trial trial{.rate = rate, .replicas = replicas, .runs = {}};
    for (const auto& one : found) {
      if (!*one) return one->error();
      trial.runs.push_back(**one);
    }
    return &trials_.emplace(key, std::move(trial)).first->second;
  }

  // Starts at `first`, the answer of shorter runs if there is one. nullopt: no rate holds.
  Result<std::optional<double>> highest_rate(double first, double step) {
    return highest_rate_that_holds([&](double rate) { return holds(rate, question_.replicas, 0); }, first,
                                   step);
  }

  // Returns the first of rate * step, rate * step^2, … for which the limits hold with `errors` standard
  // errors, or do not hold, as `wanted` says.
  Result<double> nearest_rate(double rate, double step, double errors, bool wanted) {
    for (double at = rate * step;; at *= step) {
      if (at < kMinRate || at > kMaxRate) return at;
      PAGODA_ASSIGN_OR_RETURN(const auto answer, holds(at, question_.replicas, errors));
      if (answer == wanted) return at;
    }
  }

  Result<std::int32_t> fewest_replicas(std::int32_t first, double errors) {
    std::int32_t below = 0, above = 0;  // below does not hold, above holds; 0: unknown
    for (std::int32_t count = first; above == 0;) {
      PAGODA_ASSIGN_OR_RETURN(const auto answer, holds(*question_.rate, count, errors));
      if (answer) {
        above = count;
      } else if (count == kMaxReplicas) {
        return invalid_argument(
            concat("even ", kMaxReplicas, " replicas cannot serve this rate within the limits"));
      } else {
        below = count;
        count = std::min(2 * count, kMaxReplicas);
      }
    }
    while (above - below > 1) {
      const std::int32_t middle = below + (above - below) / 2;
      PAGODA_ASSIGN_OR_RETURN(const auto answer, holds(*question_.rate, middle, errors));
      (answer ? above : below) = middle;
    }
    return above;
  }

 private:
  Result<SteadyRun> run(double rate, std::int32_t replicas, std::size_t draw) const {
    SimulationOptions options = question_.options;
    options.replicas = replicas;
    options.seed += draw;
    options.engine.seed += draw;
    WorkloadSpec spec = question_.workload;
    spec.seed += draw;
    spec.rate = rate;
    spec.num_requests = num_requests_;
    // A draw with a larger share than this puts the mean above the limit by itself.
    return steady_run(options, spec, question_.limits, kLateShare * question_.num_draws);
  }

  Result<bool> holds(double rate, std::int32_t replicas, double errors) {
    PAGODA_ASSIGN_OR_RETURN(const auto trial, attempt(rate, replicas));
    return trial->holds(errors);
  }

  const PlanQuestion& question_;
  const std::int64_t num_requests_;
  std::map<std::pair<double, std::int32_t>, Trial> trials_;
};

// Requests per second that end in the middle of a run. Excludes the first and last answers, which have
// the engine to themselves.
Result<double> served(SimulationOptions options, const WorkloadSpec& spec) {
  options.engine.max_queue_s = 0;
  PAGODA_ASSIGN_OR_RETURN(auto workload, open_workload(spec));
  std::vector<double> ends;
  const auto summary = simulate(
      options, *workload,
      {.on_outcome = [&](const SimulatedOutcome& one) { ends.push_back(one.finish_s); }, .on_progress = {}});
  if (!summary) return summary.error();
  std::ranges::sort(ends);
  const std::size_t from = ends.size() / 5, to = ends.size() * 7 / 10;
  if (to <= from || !(ends[to] > ends[from])) return 0.0;
  return static_cast<double>(to - from) / (ends[to] - ends[from]);
}

// The capacity: the rate served while more requests wait than fit; faster arrivals form an ever-growing
// queue. It is the maximum of three bounds, because equal answers that arrive at once proceed in lockstep,
// prompts beside prompts, which is slower than overlapping answers.
Result<double> capacity(const PlanQuestion& question, const PlanAnswer& plan) {
  double most = plan.rate;
  for (const double rate : {std::numeric_limits<double>::infinity(), 2 * plan.most_rate}) {
    SimulationOptions options = question.options;
    options.replicas = plan.replicas;
    WorkloadSpec spec = question.workload;
    spec.rate = rate;
    spec.num_requests = std::min<std::int64_t>(plan.num_requests, kFirstRequests * plan.replicas);
    PAGODA_ASSIGN_OR_RETURN(const auto found, served(std::move(options), spec));
    most = std::max(most, found);
  }
  return most;
}

// `sequences`: in a step of the plan.
Status check_calibration(const CostModel& cost, double sequences) {
  if (cost.fitted_steps > 0 && cost.fitted_steps < kMinSteps)
    return invalid_argument(concat("the calibration is too small: it has ", fixed(cost.fitted_steps, 0),
                                   " steps, and a plan needs ", fixed(kMinSteps, 0),
                                   " at least: calibrate for longer"));
  if (cost.fitted_sequences > 0 && sequences > kBeyond * cost.fitted_sequences)
    return invalid_argument(concat(
        "the calibration is too small: this plan has ", fixed(sequences, 0),
        " sequences in a step, and the calibration has seen no more than ", fixed(cost.fitted_sequences, 0),
        ": calibrate with more clients at once (--max-batch), or plan with a lower --max-num-seqs"));
  return ok_status();
}

// Returns the point estimate from runs of one length. `before`: the answer of shorter runs, where the search
// starts.
Result<PlanAnswer> middle_of(Search& search, const PlanQuestion& question, const PlanAnswer* before) {
  PlanAnswer out;
  if (question.rate) {
    PAGODA_ASSIGN_OR_RETURN(const auto count, search.fewest_replicas(before ? before->replicas : 1, 0));
    out.rate = *question.rate;
    out.replicas = count;
    return out;
  }
  PAGODA_ASSIGN_OR_RETURN(const auto rate, search.highest_rate(before ? before->rate : question.replicas,
                                                               before ? kAgainStep : 2));
  if (!rate) return invalid_argument("no rate is possible: even a single request exceeds the limits");
  out.rate = *rate;
  out.replicas = question.replicas;
  return out;
}

// Sets the interval in which the share of late requests does not decide whether the limits hold.
Status set_interval(Search& search, const PlanQuestion& question, PlanAnswer& out) {
  const double errors = student_t(static_cast<std::size_t>(question.num_draws) - 1);
  out.least_rate = out.most_rate = out.rate;
  out.least_replicas = out.most_replicas = out.replicas;
  if (question.rate) {
    const auto least = search.fewest_replicas(out.replicas, -errors);
    const auto most = search.fewest_replicas(out.replicas, kSkew * errors);
    if (!least) return least.error();
    if (!most) return most.error();
    out.least_replicas = *least, out.most_replicas = *most;
    return ok_status();
  }
  const auto least = search.nearest_rate(out.rate, 1 / kEdgeStep, kSkew * errors, true);
  const auto most = search.nearest_rate(out.rate, kEdgeStep, -errors, false);
  if (!least) return least.error();
  if (!most) return most.error();
  // A queue that grows by less than the limit over the whole run looks like one that does not grow.
  PAGODA_ASSIGN_OR_RETURN(const auto trial, search.attempt(out.rate, out.replicas));
  const double unseen = question.limits.ttft_p99_s / trial->mean(&SteadyRun::last_arrival_s);
  out.least_rate = *least / (1 + unseen);
  out.most_rate = *most;
  return ok_status();
}

std::string told(const PlanQuestion& question, const PlanAnswer& out, bool is_steady) {
  const std::string runs = concat(" by runs of ", out.num_requests, " requests");
  if (!is_steady)
    return concat(question.rate ? concat(out.replicas, " replicas") : concat(fixed(out.rate, 3), " req/s"),
                  runs, ", which are too short");
  return concat(question.rate ? concat(out.least_replicas, " to ", out.most_replicas, " replicas")
                              : concat(fixed(out.least_rate, 3), " to ", fixed(out.most_rate, 3), " req/s"),
                runs);
}

// Returns how much longer the next runs should be: roughly the missing factor, as an interval shrinks with
// the square root of the run length.
double next_length(const Trial& trial, bool is_steady, const PlanAnswer& out) {
  constexpr double kLeast = 2, kMost = 16;
  const double wide = std::log(out.most_rate / out.least_rate) / std::log(kNarrow);
  return std::clamp(is_steady ? wide * wide : trial.missing_turnovers(), kLeast, kMost);
}

}  // namespace

Result<PlanAnswer> plan(const PlanQuestion& question,
                        const std::function<void(const std::string&)>& progress) {
  PAGODA_RETURN_IF_ERROR(check_calibration(question.options.cost, 0));
  PlanQuestion asked = question;
  std::int64_t num_requests = kFirstRequests;
  if (asked.workload.source == WorkloadSpec::Source::trace) {
    asked.workload.repeat_trace = true;
    asked.workload.requests_a_turn = asked.workload.num_requests;
  } else {
    num_requests = std::max(num_requests, asked.workload.num_requests.value_or(0));
  }
  const std::int64_t most = std::max(kMaxRequests, num_requests);
  std::optional<PlanAnswer> before;
  for (;;) {
    Search search(asked, num_requests);
    PAGODA_ASSIGN_OR_RETURN(auto found, middle_of(search, asked, before ? &*before : nullptr));
    PlanAnswer& out = found;
    out.num_requests = num_requests;
    PAGODA_ASSIGN_OR_RETURN(const auto trial, search.attempt(out.rate, out.replicas));
    const bool is_steady = trial->missing_turnovers() <= 1;
    if (is_steady) PAGODA_RETURN_IF_ERROR(set_interval(search, asked, out));
    progress(told(asked, out, is_steady));
    out.narrow =
        asked.rate ? out.least_replicas == out.most_replicas : out.most_rate / out.least_rate < kNarrow;
    before = out;
    if ((!is_steady || !out.narrow) && num_requests < most) {
      num_requests = std::min(most, static_cast<std::int64_t>(static_cast<double>(num_requests) *
                                                              next_length(*trial, is_steady, out)));
      continue;
    }
    if (!is_steady)
      return invalid_argument(concat("no steady state within ", most, " requests: ", fixed(out.rate, 1),
                                     " req/s are over before a request of them ends"));
    out.ttft_p99_s = trial->p99(&SteadyRun::ttft);
    out.tpot_p99_s = trial->p99(&SteadyRun::tpot);
    out.mean_batch = trial->mean(&SteadyRun::mean_batch);
    out.busy = trial->mean(&SteadyRun::busy);
    PAGODA_RETURN_IF_ERROR(check_calibration(question.options.cost, trial->mean(&SteadyRun::mean_sequences)));
    PAGODA_ASSIGN_OR_RETURN(out.capacity, capacity(asked, out));
    return out;
  }
}

}  // namespace pagoda
