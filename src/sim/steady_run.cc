#include "sim/steady_run.h"

#include <algorithm>

#include "base/assign_or_return.h"

namespace pagoda {
namespace {

constexpr double kWarmUp = 0.1;   // share of requests not counted
constexpr double kForEver = 1e5;  // seconds

// Collects the latencies of the requests after the warm-up.
class Tally {
 public:
  Tally(const PlanLimits& limits, std::int64_t num_requests, double most_late)
      : limits_(limits),
        num_warm_up_(static_cast<std::int64_t>(kWarmUp * static_cast<double>(num_requests))),
        num_counted_(static_cast<double>(std::max<std::int64_t>(1, num_requests - num_warm_up_))),
        most_late_(most_late * num_counted_) {}

  void add(const SimulatedOutcome& outcome) {
    if (static_cast<std::int64_t>(outcome.number) <= num_warm_up_) return;
    const bool served = outcome.reason == "length";
    const double ttft = served ? outcome.first_token_s - outcome.arrival_s : kForEver;
    run_.ttft.add(ttft);
    run_.late_ttft += ttft > limits_.ttft_p99_s ? 1 / num_counted_ : 0;
    if (!served) return;
    run_.latency.add(outcome.finish_s - outcome.arrival_s);
    if (outcome.longest_output <= 1) return;
    const double tpot = (outcome.finish_s - outcome.first_token_s) / (outcome.longest_output - 1);
    run_.tpot.add(tpot);
    num_late_tpot_ += tpot > limits_.tpot_p99_s ? 1 : 0;
  }
  bool is_decided() const {
    return run_.late_ttft * num_counted_ > most_late_ || num_late_tpot_ > most_late_;
  }
  // Answers of one token have no time per output token.
  SteadyRun take() && {
    if (run_.tpot.count() > 0) run_.late_tpot = num_late_tpot_ / static_cast<double>(run_.tpot.count());
    return std::move(run_);
  }

 private:
  const PlanLimits limits_;
  const std::int64_t num_warm_up_;
  const double num_counted_, most_late_;
  double num_late_tpot_ = 0;
  SteadyRun run_;
};

class UntilDecided final : public Workload {
 public:
  UntilDecided(Workload& inner, const Tally& tally) : inner_(inner), tally_(tally) {}
  Result<std::optional<WorkloadRequest>> next() override {
    if (tally_.is_decided()) return std::optional<WorkloadRequest>();
    return inner_.next();
  }

 private:
  Workload& inner_;
  const Tally& tally_;
};

}  // namespace

Result<SteadyRun> steady_run(const SimulationOptions& options, const WorkloadSpec& spec,
                             const PlanLimits& limits, double most_late) {
  PAGODA_ASSIGN_OR_RETURN(auto all, open_workload(spec));
  Tally tally(limits, *spec.num_requests, most_late);
  UntilDecided workload(*all, tally);
  const auto summary =
      simulate(options, workload,
               {.on_outcome = [&](const SimulatedOutcome& one) { tally.add(one); }, .on_progress = {}});
  if (!summary) return summary.error();
  if (summary->arrived == 0) return invalid_argument("--workload has no requests");
  SteadyRun out = std::move(tally).take();
  out.mean_batch = summary->requests_by_step;
  out.mean_sequences = summary->batch_by_step;
  out.busy = summary->busy_s / std::max(1e-9, summary->duration_s * options.replicas);
  out.last_arrival_s = summary->last_arrival_s;
  return out;
}

}  // namespace pagoda
