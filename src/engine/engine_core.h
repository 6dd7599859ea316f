#pragma once
// EngineCore: an engine without a thread, a clock of its own, or blocking, so that tests and the simulator
// drive the same code as the server. It assembles its parts and forwards to them: requests (request_table.h)
// enter through request_intake.h, run in steps (step_pipeline.h), and leave through output_delivery.h or
// request_ends.h. The queue in front of it is in engine_thread.h. Invariants: engine.conservation: every
// submitted request gets exactly one finished output. engine.release: when no request is left, every KV block
// is free, cached, or part of a pinned prefix. Threads: none; the owner calls everything but validate(),
// limits(), and functions that the parts mark as thread-safe.
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
  // invalid_argument, naming the limit, if the request can never be served here. Any thread.
  Status validate(const Request& request) const { return intake_.validate(request); }
  // Adds the request to the waiting queue, which is unbounded here. On success `sink` gets every output.
  Status submit(Request request, std::shared_ptr<OutputSink> sink);
  // Takes effect immediately or, during a turn, at its end. Unknown or finished ids are ignored.
  void abort(RequestId id);
  void abort_sequence(RequestId id, std::int32_t index);
  void fail_all(const Status& error);  // ends every request with `error`, once no step is in flight
  const RequestTable& requests() const { return requests_; }
  // True if nothing is left to run. After a failure nothing more will run.
  bool idle() const {
    return requests_.empty() && steps_.num_in_flight() == 0 &&
           !(status_.ok() && parts_.kv->tiering().has_moves());
  }
  SharedPrefixes& prefixes() { return prefixes_; }
  // Also erases rows in tiers: all of them, or only those that would end with the process.
  void reset_prefix_cache(ModelRunner::TierRows tiers = ModelRunner::TierRows::all);
  // Erases the rows of this owner from the prefix cache and the tiers; complete when `done` is called,
  // possibly on another thread. Running requests keep their own K/V, and will leave it in the cache again.
  void erase_cached(const CacheOwner& owner, std::function<void(Status)> done);

  // Sleeping; see client.h. A sleeping engine computes nothing; it only ends late requests.
  Status sleep(std::int32_t level);
  Status wake_up(const WakeOrder& order) { return sleep_.wake_up(order, steps_.drafts().proposer()); }
  bool asleep() const { return sleep_.asleep(); }

  // `wake` is called on any thread when tiers have news for a step to process; null: unregister.
  void on_tier_news(std::function<void()> wake) { parts_.runner->on_tier_news(std::move(wake)); }

  // Runs a turn: one step is complete at its end, and with EngineConfig::async_scheduling the next one may be
  // in flight. Returns false if there was nothing to run except work that waits for tiers, or the runner has
  // failed (see status()).
  bool step();
  // Not ok once the runner has failed: nothing more will run, and the owner must call fail_all().
  const Status& status() const { return status_; }
  StepPipeline& steps() { return steps_; }

  // Borrowed. Call between steps. At most one observer with a cache_observer(), added before the first
  // request.
  void add_observer(StepObserver& observer);
  void remove_observer(StepObserver& observer);

  EngineSnapshot snapshot(SnapshotDetail detail) const;
  EngineLoad load() const;  // input of a forecast

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
  Status status_;  // the status of the runner
  EngineMetrics metrics_;
  StepObservers observers_;  // metrics_ is first
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
