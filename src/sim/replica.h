#pragma once
// Replica: one simulated engine with its clock, its runner and its statistics.
// Threads: none; owned by the simulation.
#include <memory>

#include "base/metrics.h"
#include "engine/cache_events.h"
#include "engine/engine_core.h"
#include "engine/live_feed.h"
#include "engine/step_observer.h"
#include "routing/router.h"
#include "sim/simulated_model_runner.h"
#include "sim/simulation.h"

namespace pagoda {

class Replica final : public StepObserver {
 public:
  // `number`: index among the replicas.
  static Result<std::unique_ptr<Replica>> create(const SimulationOptions& options, std::int32_t number,
                                                 std::function<void(const SimulatedOutcome&)> on_outcome,
                                                 decltype(SimulationCallbacks::on_step) on_step = {});
  ~Replica() override;

  TimeNs now() const { return clock_.now(); }
  bool idle() const { return core_->idle(); }
  bool failed() const { return !core_->status().ok(); }
  ReplicaLoad load() const { return {core_->requests().size(), uncached_tokens_}; }
  void set_cache_observer(CacheObserver* observer) {  // borrowed; call before the first request
    cache_events_ = std::make_unique<CacheEvents>(*observer);
    core_->add_observer(*cache_events_);
  }

  // The request arrives at `time`; a time before now() means that it waited for a step to end. `count_as` is
  // the outcome to report; its times and token counts are filled in. load() includes `uncached_tokens` until
  // the request ends.
  void submit(Request request, TimeNs time, SimulatedOutcome count_as, std::int64_t uncached_tokens);
  void abort(RequestId id, TimeNs time);
  void abort_sequence(RequestId id, std::int32_t index, TimeNs time);
  // Pins a prefix of synthetic tokens, or drops the pinned prefix.
  void pin_or_drop_prefix(std::int32_t num_tokens);
  // Runs a step and advances the clock to its end.
  void step();
  const Timeline& timeline() const { return timeline_; }

  static double seconds_since_start(TimeNs time) { return to_seconds(time - VirtualClock::kStart); }

 private:
  class Sink;
  Replica(const SimulationOptions& options, std::int32_t number,
          std::function<void(const SimulatedOutcome&)> on_outcome);
  void on_step(const StepReport& report) override;
  void on_usage(const KvUsage& usage) override;
  void finish(SimulatedOutcome& outcome, std::string_view reason);
  void move_clock_to(TimeNs time);

  const SimulationOptions& options_;
  const std::int32_t number_;
  const std::function<void(const SimulatedOutcome&)> on_outcome_;
  decltype(SimulationCallbacks::on_step) on_step_;
  VirtualClock clock_;
  MetricsRegistry metrics_;
  SimulatedModelRunner* runner_ = nullptr;  // owned by the core
  std::unique_ptr<LiveFeed> live_;          // null: no observer
  std::unique_ptr<CacheEvents> cache_events_;
  std::int64_t uncached_tokens_ = 0;  // in the replica's open requests
  std::unique_ptr<EngineCore> core_;
  std::uint64_t fault_draws_ = 0;
  bool prefix_asked_for_ = false;

  // Statistics.
  SimulationSummary sums_;
  struct {
    double steps = 0, seconds = 0;
    double sequences = 0, sequence_seconds = 0, requests = 0, request_seconds = 0, waiting_seconds = 0;
    double token = 0, reserved = 0, internal = 0, external = 0;  // slots, summed over the usage samples
    double in_use = 0, total = 0, saved = 0, without_sharing = 0;
  } totals_;
  Timeline timeline_;
  friend SimulationSummary summarize(const std::vector<std::unique_ptr<Replica>>& replicas);
};

// Sums over all replicas. The caller fills in the counts of the workload.
SimulationSummary summarize(const std::vector<std::unique_ptr<Replica>>& replicas);

}  // namespace pagoda
