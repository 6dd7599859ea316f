#pragma once
// StepPipeline: runs the engine's steps. A step is planned (token budget, drafts), scheduled, masked, run,
// and retired: its tokens are applied, the scheduler updated and outputs published.
//     begin() -> StepInFlight -> wait() -> retire()
// A turn of the engine retires one step. With EngineConfig::async_scheduling it first begins the next one,
// while the one to be retired runs, unless what that draws has to be known: after drafts, masks, beams,
// forks, vectors and bad words, and before somebody is preempted. A sequence that turns out to have ended
// with the earlier step may have a row in the later one, whose result is dropped. Invariant: between begin()
// and retire() nothing that the batch points into is freed: K/V by the scheduler's update() of it, requests
// by RequestTable::note_retired(). Threads: none; the engine thread's.
#include <array>
#include <optional>
#include <vector>

#include "engine/constraint_masks.h"
#include "engine/cost_meter.h"
#include "engine/draft_planner.h"
#include "engine/shared_prefixes.h"
#include "engine/step_budget.h"

namespace pagoda {

// A step that the runner has been given and that has not been applied. At most two are.
struct StepInFlight {
  std::int64_t number = 0;          // from 1
  ScheduledBatch* batch = nullptr;  // the scheduler's, until update()
  std::span<const ScheduledRef> refs;
  std::span<SequenceGroup* const> preempted;
  std::vector<MaskedSequence> masked;
  Status submitted;
  TimeNs started = 0, finished = 0;  // from when it was planned, or the step before it was finished
  bool next_planned = false;         // the next step was, beside this one
};

class StepPipeline {
 public:
  // Borrows all of them.
  StepPipeline(const EngineConfig& config, const EngineParts& parts, const Clock& clock,
               RequestTable& requests, SharedPrefixes& prefixes, RequestEnds& ends, OutputDelivery& outputs,
               SequenceIds& ids, const StepObservers& observers, Status& runner_status);

  // A turn. False: there was nothing to run, or the runner has failed and nothing more will run:
  // `runner_status` says why.
  bool step();
  // Retires what is in flight and begins nothing.
  void drain();
  std::int64_t num_steps() const { return num_retired_; }
  std::int32_t num_in_flight() const { return num_in_flight_; }
  const StepBudget& budget() const { return budget_; }
  DraftPlanner& drafts() { return drafts_; }

  // For an idle engine. heartbeat() asks the runner whether it could still run, every heartbeat_interval()
  // (0: never).
  std::chrono::milliseconds heartbeat_interval() const { return parts_.runner->heartbeat_interval(); }
  void heartbeat();
  // Whether a step would bring news of tiers, though nothing may be scheduled.
  bool has_tier_news() const { return runner_status_.ok() && parts_.runner->has_tier_news(); }
  // A few milliseconds of what later steps would wait for; false when nothing is left.
  bool prepare_ahead() { return runner_status_.ok() && parts_.runner->prepare_ahead(); }

 private:
  struct Part {  // range of changes_, for one request
    RequestState* state;
    std::size_t begin, end;
  };
  void plan();
  bool begin();  // false: there is nothing to run, nor to hear of tiers
  bool may_plan_ahead() const;
  StepInFlight& oldest() { return steps_[static_cast<std::size_t>(num_retired_ % kMaxInFlight)]; }
  const StepInFlight& oldest() const { return steps_[static_cast<std::size_t>(num_retired_ % kMaxInFlight)]; }
  bool retire_oldest();
  StepResult wait(StepInFlight& step);
  bool retire(StepInFlight& step, StepResult& result);
  void ended(const StepInFlight& step);
  // The runner's; internal where it throws.
  Status submit(const ScheduledBatch& batch);
  StepResult wait_for_runner();
  void note_in_poison_record(const StepInFlight& step);
  void apply(const StepInFlight& step, StepResult& result);
  void decode(SequenceGroup& group, RequestState& state);
  void verify_drafts(RequestState& state, const StepInFlight& step, std::size_t first, std::size_t last,
                     std::size_t first_change);

  const EngineConfig& config_;
  const EngineParts& parts_;
  const Clock& clock_;
  RequestTable& requests_;
  SharedPrefixes& prefixes_;
  RequestEnds& ends_;
  OutputDelivery& outputs_;
  SequenceIds& ids_;
  const StepObservers& observers_;
  Status& runner_status_;
  CostMeter costs_;
  StepBudget budget_;
  DraftPlanner drafts_;

  static constexpr std::int64_t kMaxInFlight = PoisonRecord::kMaxInFlight;
  std::array<StepInFlight, kMaxInFlight> steps_;  // step number n at (n - 1) % kMaxInFlight
  std::int64_t num_retired_ = 0;
  std::int32_t num_in_flight_ = 0;
  TimeNs last_finished_ = 0;
  // Kept between steps for their capacity.
  std::vector<Change> changes_;
  std::vector<SampledSequence> sampled_;
  std::vector<Part> touched_;
  std::vector<RequestDigest> digests_;
};

}  // namespace pagoda
