#pragma once
// LiveFeed: what a live view needs to hear of each step: the pool's events (a Journal), steps and ended
// requests, until they are taken. An engine without one pays null checks. Invariants: bounded, whoever does
// not take loses the oldest and is told how many. Not the state itself: EngineCore::live_state().
// Threads: none; the engine core's.
#include <span>
#include <vector>

#include "engine/journal.h"
#include "request/changes.h"
#include "request/live_state.h"
#include "scheduler/scheduler.h"

namespace pagoda {

class LiveFeed {
 public:
  LiveFeed();

  Journal& journal() { return *journal_; }
  // Before the changes are carried out.
  void on_step(std::int64_t number, const ScheduledBatch& batch, std::size_t num_preempted,
               std::span<const Change> changes, TimeNs started, TimeNs finished);
  // After them: who waits and runs now, and what is in use.
  void on_counts(const SchedulerCounts& counts, std::int64_t blocks_in_use);
  void on_ended(const LiveEnded& ended);
  // Moves what has happened into `state`.
  void take(LiveState& state);

 private:
  MemoryBudget memory_;
  std::unique_ptr<Journal> journal_;
  std::int64_t num_read_ = 0;  // of the journal
  std::vector<LiveStep> steps_;
  std::vector<LiveEnded> ended_;
  std::int64_t num_missed_ = 0;
};

}  // namespace pagoda
