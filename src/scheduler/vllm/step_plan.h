#pragma once
// StepPlan: a step that is being planned or run: its batch, the objects behind the batch's ids, and the
// groups that were preempted for it. roll_back() removes a group that turns out not to fit.
//     begin -> [ take | mark .. roll_back ]* -> planned -> (the batch is run) -> end
// StepPlans holds two of them: a step can be planned while the previous one is in flight.
// Invariant: references() names the batch's sequences in order, and num_tokens is their tokens' sum. A
// sequence's num_in_flight counts the plans between begin() and end() that name it.
// Threads: none; owned by the engine thread.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache/kv_manager.h"
#include "scheduler/scheduler.h"

namespace pagoda {

class StepPlan {
 public:
  struct Mark {
    std::size_t num_sequences, num_block_copies;
    std::int32_t num_tokens;
  };

  // `before`: the step in flight beside which this one is planned, or null.
  void begin(const StepPlan* before);
  void planned() { planning_ = false; }
  // The batch has run. Frees the blocks of its sequences that have finished meanwhile.
  void end(KvManager& kv);
  bool in_flight() const { return in_flight_; }  // between begin() and end()

  // True if planned while another step is in flight: such a step preempts nothing, and sequences without
  // blocks pause.
  bool ahead() const { return before_ != nullptr; }
  const StepPlan* before() const { return before_; }
  void note_pause() { pauses_ = true; }
  bool pauses() const { return pauses_; }  // a sequence pauses: do not plan the next step ahead

  ScheduledBatch& batch() { return batch_; }
  const ScheduledBatch& batch() const { return batch_; }
  std::span<const ScheduledRef> references() const { return references_; }
  std::span<SequenceGroup* const> preempted() const { return preempted_; }

  // Adds `count` tokens of the sequence and `num_draft_tokens` of its drafts to the batch.
  void take(SequenceGroup& group, Sequence& sequence, std::int32_t count, std::int32_t num_draft_tokens,
            const KvTables& tables);
  void add_preempted(SequenceGroup& group) {  // ignored while no step is being planned
    if (planning_) preempted_.push_back(&group);
  }

  Mark mark() const;
  // Removes everything added since `mark`; returns its number of tokens.
  std::int32_t roll_back(const Mark& mark);

  void check_invariants() const;

 private:
  ScheduledBatch batch_;
  std::vector<ScheduledRef> references_;
  std::vector<SequenceGroup*> preempted_;
  const StepPlan* before_ = nullptr;
  bool in_flight_ = false, planning_ = false, pauses_ = false;
};

class StepPlans {
 public:
  StepPlan& latest() { return plans_[latest_]; }  // planned last, or being planned
  const StepPlan& latest() const { return plans_[latest_]; }
  // The earliest plan in flight; if there is none, the latest plan.
  StepPlan& oldest() { return plans_[oldest_index()]; }
  const StepPlan& oldest() const { return plans_[oldest_index()]; }

  // Starts a plan, possibly while a step is in flight. At most two are in flight.
  StepPlan& begin();
  // Ends the latest plan, which names no sequence and will not be run.
  void drop(KvManager& kv);
  void check_invariants() const;

 private:
  std::size_t oldest_index() const { return plans_[1 - latest_].in_flight() ? 1 - latest_ : latest_; }

  std::array<StepPlan, 2> plans_;
  std::size_t latest_ = 0;
};

}  // namespace pagoda
