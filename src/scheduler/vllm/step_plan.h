#pragma once
// StepPlan: the step that is being planned or run: its batch, the objects behind the batch's ids, and who was
// preempted for it. A group that turns out to have no room is taken out again by roll_back().
//     begin -> [ take | mark .. roll_back ]* -> (the batch is run) -> end
// Invariant: references() names the batch's sequences in order, and num_tokens is their tokens' sum.
// Threads: none; owned by the engine thread.
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

  void begin();
  void end();
  bool in_flight() const { return in_flight_; }  // between the two

  ScheduledBatch& batch() { return batch_; }
  const ScheduledBatch& batch() const { return batch_; }
  std::span<const ScheduledRef> references() const { return references_; }
  std::span<SequenceGroup* const> preempted() const { return preempted_; }

  // Puts `count` tokens of the sequence into the batch, and so many of its drafts.
  void take(SequenceGroup& group, Sequence& sequence, std::int32_t count, std::int32_t num_draft_tokens,
            const KvTables& tables);
  void add_preempted(SequenceGroup& group) { preempted_.push_back(&group); }

  Mark mark() const;
  // Takes out what was put in since; returns the number of its tokens.
  std::int32_t roll_back(const Mark& mark);

  void check_invariants() const;

 private:
  ScheduledBatch batch_;
  std::vector<ScheduledRef> references_;
  std::vector<SequenceGroup*> preempted_;
  bool in_flight_ = false;
};

}  // namespace pagoda
