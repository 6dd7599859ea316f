#pragma once
// LiveFeed: collects the events of each step for a live view (pool events in a Journal, steps, ended
// requests) until a snapshot takes them. The state itself is in take_snapshot.h. Invariants: bounded; without
// a reader the oldest events are dropped and counted. Threads: none; the engine thread's.
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

  // Moves the pending events into `snapshot`.
  void take(EngineSnapshot& snapshot);

 private:
  MemoryBudget memory_;
  std::unique_ptr<Journal> journal_;
  std::int64_t num_read_ = 0;  // journal events read so far
  std::vector<StepSnapshot> steps_;
  std::vector<EndedSnapshot> ended_;
  std::int64_t num_missed_ = 0;
};

}  // namespace pagoda
