#pragma once
// LiveFeed: what a live view needs of each step: the pool's events (a Journal), steps and ended requests,
// until they are taken into a snapshot. Not the state itself: take_snapshot.h. Invariants: bounded; a reader
// that does not take loses the oldest and is told how many. Threads: none; the engine thread's.
#include <span>
#include <vector>

#include "engine/journal.h"
#include "request/engine_snapshot.h"

namespace pagoda {

class LiveFeed final : public StepObserver {
 public:
  LiveFeed();

  Journal& journal() { return *journal_; }
  void on_scheduled(std::int64_t step, const ScheduledBatch& batch,
                    std::span<SequenceGroup* const> preempted) override {
    journal_->on_scheduled(step, batch, preempted);
  }
  void on_outcome(const StepOutcome& outcome) override;
  void on_state(const EngineHoldings& state) override;
  void on_ended(const EndedRequest& ended) override;

  // Moves what has happened into `snapshot`.
  void take(EngineSnapshot& snapshot);

 private:
  MemoryBudget memory_;
  std::unique_ptr<Journal> journal_;
  std::int64_t num_read_ = 0;  // events of the journal read so far
  std::vector<StepSnapshot> steps_;
  std::vector<EndedSnapshot> ended_;
  std::int64_t num_missed_ = 0;
};

}  // namespace pagoda
