#pragma once
// Admission: lets groups into the step: first those that were swapped out, then those that wait, in the
// admission order, and nobody is skipped, but for those whose prompt's K/V comes from a tier (arrivals.h).
// One whose prompt begins like one that this step computes waits, to share its blocks.
//     admit -> [ swapped group in | waiting group in ]* -> the first that does not fit ends it
// Source: PagedAttention (SOSP'23) §4.5. Threads: none; owned by the engine thread.
#include <cstdint>

#include "scheduler/vllm/arrivals.h"
#include "scheduler/vllm/batch_filler.h"
#include "scheduler/vllm/growth.h"
#include "scheduler/vllm/preemption.h"
#include "scheduler/vllm/scheduler_records.h"
#include "scheduler/vllm/swapping.h"

namespace pagoda {

class Admission {
 public:
  Admission(SchedulerRecords& records, BatchFiller& filler, Growth& growth, Preemption& preemption,
            Swapping& swapping, Arrivals& arrivals)
      : records_(records),
        filler_(filler),
        growth_(growth),
        preemption_(preemption),
        swapping_(swapping),
        arrivals_(arrivals) {}

  // After all running groups have got their tokens.
  void admit();

  // The group to be admitted next; some must wait.
  SequenceGroup& next_waiting() const;
  // Gives the group's first sequence its cached prefix and blocks for its prompt. False, with nothing changed
  // but what it notes about a later try: there is no room. The group is still in the waiting queue.
  bool try_admit(SequenceGroup& group);
  // Whether it cannot be let in by a step that is planned ahead.
  bool waits_for_step_in_flight(const SequenceGroup& group) const;
  // A group that is in no queue, and whose sequences have their blocks, runs; returns its position.
  std::size_t begin_running(SequenceGroup& group);

 private:
  void admit_in_order();
  bool resume_swapped(std::int32_t& num_seqs);  // false: nobody else may follow
  void run_now(SequenceGroup& group);           // into the batch, too
  bool lacks_blocks_for_gang(SequenceGroup& group, std::int64_t margin) const;
  // Whether a sequence of this step is about to compute a beginning that `leader` would compute once more.
  bool prefix_under_way(const SequenceGroup& group, const Sequence& leader, std::int32_t cached);

  SchedulerRecords& records_;
  BatchFiller& filler_;
  Growth& growth_;
  Preemption& preemption_;
  Swapping& swapping_;
  Arrivals& arrivals_;
};

}  // namespace pagoda
