#pragma once
// StepPipeline: runs the engine's steps. A step is planned (token budget, drafts), scheduled, masked, run,
// and retired: its tokens are applied, the scheduler updated and outputs published.
//
//     begin() -> StepInFlight -> wait() -> retire()
//
// One step is in flight at a time: the runner returns when it is done. What belongs to a step and not to the
// engine is in the StepInFlight, so that a runner that returns early needs a second record, not a second
// pipeline. Invariant: between begin() and retire() nothing that the batch points into is freed
// (RequestEnds). Threads: none; the engine thread's.
#include <optional>
#include <vector>

#include "engine/constraint_masks.h"
#include "engine/cost_meter.h"
#include "engine/draft_planner.h"
#include "engine/shared_prefixes.h"
#include "engine/step_budget.h"

namespace pagoda {

// A step that the runner has been given and that has not been applied.
struct StepInFlight {
  std::int64_t number = 0;          // from 1
  ScheduledBatch* batch = nullptr;  // the scheduler's, until update()
  std::span<const ScheduledRef> refs;
  std::span<SequenceGroup* const> preempted;
  std::vector<MaskedSequence> masked;
  TimeNs started = 0, finished = 0;
};

class StepPipeline {
 public:
  // Borrows all of them.
  StepPipeline(const EngineConfig& config, const EngineParts& parts, const Clock& clock,
               RequestTable& requests, SharedPrefixes& prefixes, RequestEnds& ends, OutputDelivery& outputs,
               SequenceIds& ids, const StepObservers& observers, Status& runner_status);

  // False: there was nothing to run, or the runner has failed and nothing more will run: `runner_status` says
  // why.
  bool step();
  std::int64_t num_steps() const { return num_steps_; }
  const StepBudget& budget() const { return budget_; }
  DraftPlanner& drafts() { return drafts_; }

  // For an idle engine. heartbeat() asks the runner whether it could still run, every heartbeat_interval()
  // (0: never).
  std::chrono::milliseconds heartbeat_interval() const { return parts_.runner->heartbeat_interval(); }
  void heartbeat();
  // A few milliseconds of what later steps would wait for; false when nothing is left.
  // Whether a step would bring news of tiers, though nothing may be scheduled.
  bool has_tier_news() const { return runner_status_.ok() && parts_.runner->has_tier_news(); }
  bool prepare_ahead() { return runner_status_.ok() && parts_.runner->prepare_ahead(); }

 private:
  struct Part {  // range of changes_, for one request
    RequestState* state;
    std::size_t begin, end;
  };
  void plan();
  bool begin();  // false: there is nothing to run, nor to hear of tiers
  StepResult wait(StepInFlight& step);
  bool retire(StepInFlight& step, StepResult& result);
  StepResult run(const ScheduledBatch& batch);
  void note_in_poison_record(std::span<const ScheduledRef> refs);
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
  std::int64_t num_steps_ = 0;

  StepInFlight in_flight_;
  // Kept between steps for their capacity.
  std::vector<Change> changes_;
  std::vector<SampledSequence> sampled_;
  std::vector<Part> touched_;
  std::vector<RequestDigest> digests_;
};

}  // namespace pagoda
