#pragma once
// StepPipeline: runs the engine's steps. A step is planned (token budget, drafts), scheduled, masked, run,
// and retired: its tokens are applied, the scheduler updated and outputs published.
//     begin() -> StepInFlight -> wait() -> retire()
// A turn of the engine retires one step. With EngineConfig::async_scheduling it first begins the next step
// while the current one runs, unless the next depends on the current one's draws: after drafts, masks, beams,
// forks, vectors and bad words, and before a preemption. A sequence that turns out to have ended in the
// earlier step may have a row in the later one, whose result is dropped. Invariant: between begin() and
// retire() nothing that the batch points to is freed: K/V by the scheduler's update(), requests by
// RequestTable::note_retired(). Threads: none; the engine thread's.
#include <array>
#include <optional>
#include <vector>

#include "engine/constraint_masks.h"
#include "engine/cost_meter.h"
#include "engine/draft_planner.h"
#include "engine/shared_prefixes.h"
#include "engine/step_budget.h"

namespace pagoda {

// A step that was submitted to the runner and has not been applied. At most two exist.
struct StepInFlight {
  std::int64_t number = 0;          // from 1
  ScheduledBatch* batch = nullptr;  // owned by the scheduler, valid until update()
  std::span<const ScheduledRef> refs;
  std::span<SequenceGroup* const> preempted;
  std::vector<MaskedSequence> masked;
  Status submitted;
  TimeNs started = 0, finished = 0;  // started: when planned, or when the previous step finished
  bool next_planned = false;         // the next step was planned alongside this one
};

class StepPipeline {
 public:
  // Borrows all arguments.
  StepPipeline(const EngineConfig& config, const EngineParts& parts, const Clock& clock,
               RequestTable& requests, SharedPrefixes& prefixes, RequestEnds& ends, OutputDelivery& outputs,
               SequenceIds& ids, const StepObservers& observers, Status& runner_status);

  // Runs a turn. Returns false if there was nothing to run, or the runner has failed and nothing more will
  // run: `runner_status` has the reason.
  bool step();
  // Retires the steps in flight and begins none.
  void drain();
  std::int64_t num_steps() const { return num_retired_; }
  std::int32_t num_in_flight() const { return num_in_flight_; }
  const StepBudget& budget() const { return budget_; }
  DraftPlanner& drafts() { return drafts_; }

  // For an idle engine. heartbeat() asks the runner whether it still works; call it every
  // heartbeat_interval() (0: never).
  std::chrono::milliseconds heartbeat_interval() const { return parts_.runner->heartbeat_interval(); }
  void heartbeat();
  // True if a step would process tier news, even if nothing is scheduled.
  bool has_tier_news() const { return runner_status_.ok() && parts_.runner->has_tier_news(); }
  // Spends a few milliseconds on work that later steps would wait for. Returns false when nothing is left.
  bool prepare_ahead() { return runner_status_.ok() && parts_.runner->prepare_ahead(); }

 private:
  struct Part {  // range of changes_, for one request
    RequestState* state;
    std::size_t begin, end;
  };
  void plan();
  bool begin();  // false: nothing to run, and no tier news
  bool may_plan_ahead() const;
  StepInFlight& oldest() { return steps_[static_cast<std::size_t>(num_retired_ % kMaxInFlight)]; }
  const StepInFlight& oldest() const { return steps_[static_cast<std::size_t>(num_retired_ % kMaxInFlight)]; }
  bool retire_oldest();
  StepResult wait(StepInFlight& step);
  bool retire(StepInFlight& step, StepResult& result);
  void ended(const StepInFlight& step);
  // The runner's submit() and wait(); an exception becomes an internal error.
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
  std::array<StepInFlight, kMaxInFlight> steps_;  // step number n is at (n - 1) % kMaxInFlight
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
