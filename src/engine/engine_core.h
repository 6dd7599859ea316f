#pragma once
// EngineCore: an engine without a thread, a clock of its own, or any waiting, so that tests and the simulator
// drive the same code as the server. It puts its parts together and forwards to them: requests
// (request_table.h) come in through request_intake.h, run in steps (step_pipeline.h), and go out through
// output_delivery.h or request_ends.h. It is not the queue in front of it (engine_thread.h). Invariants:
// engine.conservation: every submitted request gets exactly one finished output. engine.release: when no
// request is left, every KV block is free, cached or a pinned prefix's.
// Threads: none; the owner calls everything but validate(), limits(), and what its parts mark as safe.
#include "engine/engine_metrics.h"
#include "engine/engine_sleep.h"
#include "engine/step_pipeline.h"

namespace pagoda {

class EngineCore {
 public:
  // `config` has passed validate(). Borrows clock and registry.
  EngineCore(const EngineConfig& config, EngineParts parts, const Clock& clock, MetricsRegistry& registry);
  ~EngineCore();

  const EngineLimits& limits() const { return limits_; }
  // invalid_argument: the request can never be served here, naming the limit. Any thread.
  Status validate(const Request& request) const { return intake_.validate(request); }
  // Takes the request into the waiting queue, which has no bound here. On success `sink` gets every output.
  Status submit(Request request, std::shared_ptr<OutputSink> sink);
  // At once; during a turn, at its end. Unknown or finished ids are ignored.
  void abort(RequestId id);
  void abort_sequence(RequestId id, std::int32_t index);
  void fail_all(const Status& error);  // ends every request with `error`, once no step is in flight
  const RequestTable& requests() const { return requests_; }
  // Nothing is left to run; after a failure nothing more will.
  bool idle() const {
    return requests_.empty() && steps_.num_in_flight() == 0 &&
           !(status_.ok() && parts_.kv->tiering().has_moves());
  }
  SharedPrefixes& prefixes() { return prefixes_; }
  // The rows of tiers go with it, or those alone that end with the process.
  void reset_prefix_cache(ModelRunner::TierRows tiers = ModelRunner::TierRows::all);
  // The rows of this owner in the prefix cache and the tiers are gone once `done` is called, which may be on
  // another thread. Requests that run keep their own K/V, and leave it there again.
  void erase_cached(const CacheOwner& owner, std::function<void(Status)> done);

  // Sleeping; see client.h. A sleeping engine computes nothing; only what is late ends.
  Status sleep(std::int32_t level);
  Status wake_up(const WakeOrder& order) { return sleep_.wake_up(order, steps_.drafts().proposer()); }
  bool asleep() const { return sleep_.asleep(); }

  // `wake` is called on any thread when tiers have news that a step would take; null: none.
  void on_tier_news(std::function<void()> wake) { parts_.runner->on_tier_news(std::move(wake)); }

  // A turn: one step is over at its end, and with EngineConfig::async_scheduling the next one may be in
  // flight. False when there was nothing to run but what waits for tiers, or the runner has failed (see
  // status()).
  bool step();
  // Not ok once the runner has failed: nothing more will run, and the owner calls fail_all().
  const Status& status() const { return status_; }
  StepPipeline& steps() { return steps_; }

  // Borrowed. Between steps; of those with a cache_observer() one, before the first request.
  void add_observer(StepObserver& observer);
  void remove_observer(StepObserver& observer);

  EngineSnapshot snapshot(SnapshotDetail detail) const;
  EngineLoad load() const;  // the input of a forecast

  const KvManager& kv() const { return *parts_.kv; }
  const Scheduler& scheduler() const { return *parts_.scheduler; }
  EngineMetrics& metrics() { return metrics_; }
  const Clock& clock() const { return clock_; }
  void check_invariants() const;

 private:
  bool run_step();
  void clear_draft_cache();

  const EngineConfig config_;
  EngineParts parts_;
  const Clock& clock_;
  EngineLimits limits_;
  Status status_;  // the runner's
  EngineMetrics metrics_;
  StepObservers observers_;  // metrics_ first
  SequenceIds ids_;
  RequestTable requests_;
  OutputDelivery outputs_;
  RequestEnds ends_;
  RequestIntake intake_;
  SharedPrefixes prefixes_;
  EngineSleep sleep_;
  StepPipeline steps_;
};

}  // namespace pagoda
