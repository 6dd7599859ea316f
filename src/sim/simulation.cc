#include "sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "base/assign_or_return.h"
#include "base/random.h"
#include "base/strings.h"
#include "routing/router.h"
#include "sim/replica.h"
#include "sim/simulated_request.h"

namespace pagoda {
namespace {

constexpr double kMaxSimulatedSeconds = 1e9;
constexpr std::int64_t kProgressSteps = 512;

// The time at which a client leaves.
struct Departure {
  TimeNs time = 0;
  RequestId id{};
  std::size_t replica = 0;
  std::int32_t index = -1;  // the answer to end; -1: the whole request
  bool operator>(const Departure& other) const {
    return time != other.time ? time > other.time : id > other.id;
  }
};

class Run {
 public:
  Run(const SimulationOptions& options, Workload& workload, const SimulationCallbacks& callbacks)
      : options_(options), workload_(workload), callbacks_(callbacks), router_(make_router(options.router)) {}

  Result<SimulationSummary> run() {
    for (std::int32_t i = 0; i < options_.replicas; ++i) {
      const auto on_outcome = [this](const SimulatedOutcome& outcome) {
        ++num_ended_;
        if (callbacks_.on_outcome) callbacks_.on_outcome(outcome);
      };
      PAGODA_ASSIGN_OR_RETURN(auto replica, Replica::create(options_, i, on_outcome, callbacks_.on_step));
      if (CacheObserver* observer = router_->cache_observer(static_cast<std::size_t>(i)))
        replica->set_cache_observer(observer);
      replicas_.push_back(std::move(replica));
    }
    requests_of_replica_.resize(replicas_.size());
    const TimeNs end = options_.max_seconds > 0 ? time_of(options_.max_seconds) : kForever;
    while (true) {
      PAGODA_ASSIGN_OR_RETURN(auto next, workload_.next());
      if (!next) break;
      WorkloadRequest& arrival = *next;
      PAGODA_RETURN_IF_ERROR(check(arrival));
      const TimeNs time = time_of(arrival.arrival_s);
      if (time > end) break;
      advance_to(time);
      arrive(arrival, time);
      open_at_last_arrival_ = num_arrived_ - num_ended_;
    }
    advance_to(end);
    SimulationSummary out = summarize(replicas_);
    out.arrived = num_arrived_;
    out.last_arrival_s = last_arrival_s_;
    out.open_at_last_arrival = open_at_last_arrival_;
    out.requests_of_replica = requests_of_replica_;
    return out;
  }

 private:
  static constexpr TimeNs kForever = std::numeric_limits<TimeNs>::max();

  static TimeNs time_of(double seconds) {
    return VirtualClock::kStart + static_cast<TimeNs>(std::llround(seconds * 1e9));
  }

  Status check(WorkloadRequest& arrival) {
    const std::int64_t number = num_arrived_ + 1;
    if (!std::isfinite(arrival.arrival_s) || arrival.arrival_s < 0 ||
        arrival.arrival_s > kMaxSimulatedSeconds)
      return invalid_argument(concat("request ", number, ": arrival_s is out of range"));
    if (options_.faults && options_.faults->burst_s > 0)
      arrival.arrival_s = std::ceil(arrival.arrival_s / options_.faults->burst_s) * options_.faults->burst_s;
    if (arrival.arrival_s < last_arrival_s_)
      return invalid_argument(concat("request ", number, ": arrival_s is before that of the one before"));
    last_arrival_s_ = arrival.arrival_s;
    return ok_status();
  }

  // Runs every engine until it is idle or its next step would begin at `time` or later.
  void advance_to(TimeNs time) {
    while (!departures_.empty() && departures_.top().time <= time) {
      const Departure departure = departures_.top();
      departures_.pop();
      run_until(*replicas_[departure.replica], departure.time);
      if (departure.index < 0)
        replicas_[departure.replica]->abort(departure.id, departure.time);
      else
        replicas_[departure.replica]->abort_sequence(departure.id, departure.index, departure.time);
    }
    for (const auto& replica : replicas_) run_until(*replica, time);
  }

  void run_until(Replica& replica, TimeNs time) {
    while (!replica.idle() && replica.now() < time) {
      replica.step();
      if (++num_steps_ % kProgressSteps == 0 && callbacks_.on_progress)
        callbacks_.on_progress(num_ended_, Replica::seconds_since_start(replica.now()));
    }
  }

  void arrive(const WorkloadRequest& arrival, TimeNs time) {
    ++num_arrived_;
    const auto number = static_cast<std::uint64_t>(num_arrived_);
    Request request = make_simulated_request(arrival, number, options_.seed, options_.cost.vocab_size);
    if (arrival.timeout_s > 0) request.deadline = time + static_cast<TimeNs>(arrival.timeout_s * 1e9);
    std::vector<ReplicaLoad> loads;
    for (const auto& replica : replicas_) loads.push_back(replica->load());
    const RouterChoice choice = replicas_.size() == 1 ? RouterChoice{} : router_->choose(request, loads);
    const std::size_t chosen = choice.replica;
    ++requests_of_replica_[chosen];
    SimulatedOutcome outcome;
    outcome.number = number;
    outcome.arrival_s = arrival.arrival_s;
    outcome.prompt_tokens = static_cast<std::int32_t>(request.prompt_token_ids.size());
    outcome.num_sequences = std::max({1, arrival.n, arrival.best_of, arrival.beam_width});
    plan_departure(arrival, request.id, chosen, time);
    replicas_[chosen]->submit(std::move(request), time, outcome, choice.uncached_tokens);
  }

  void plan_departure(const WorkloadRequest& arrival, RequestId id, std::size_t replica, TimeNs time) {
    if (!options_.faults) return;
    const auto draw = [&](std::uint64_t stream) {
      return random_uniform(options_.faults->seed, stream, static_cast<std::uint64_t>(id));
    };
    // From immediately to long after the expected end.
    const double patience = draw(2) * 2 * (0.01 + 0.05 * arrival.output_tokens);
    const TimeNs at = time + static_cast<TimeNs>(patience * 1e9);
    if (draw(1) < options_.faults->drop_share) departures_.push({at, id, replica});
    const auto index = static_cast<std::int32_t>(draw(3) * std::max(1, arrival.n));
    if (draw(4) < options_.faults->stop_share) departures_.push({at, id, replica, index});
    if (draw(5) < options_.faults->pin_share)
      replicas_[replica]->pin_or_drop_prefix(
          1 + static_cast<std::int32_t>(draw(6) * 3 * options_.engine.block_size));
  }

  const SimulationOptions& options_;
  Workload& workload_;
  const SimulationCallbacks& callbacks_;
  std::unique_ptr<Router> router_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::priority_queue<Departure, std::vector<Departure>, std::greater<>> departures_;
  std::vector<std::int64_t> requests_of_replica_;
  std::int64_t num_arrived_ = 0, num_ended_ = 0, num_steps_ = 0, open_at_last_arrival_ = 0;
  double last_arrival_s_ = 0;
};

}  // namespace

Result<SimulationSummary> simulate(const SimulationOptions& options, Workload& workload,
                                   const SimulationCallbacks& callbacks) {
  PAGODA_RETURN_IF_ERROR(validate(options.cost));
  PAGODA_RETURN_IF_ERROR(validate(options.engine));
  if (options.replicas < 1) return invalid_argument("--replicas must be at least 1");
  return Run(options, workload, callbacks).run();
}

}  // namespace pagoda
