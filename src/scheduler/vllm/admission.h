#pragma once
// Admission: admits groups to the step: first swapped-out groups, then waiting ones in the admission order.
// No group is skipped, except those whose prompt's K/V is being fetched from a tier (arrivals.h). If this
// step already computes a prefix that a group shares, the group waits in order to share its blocks.
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

  // Call after all running groups have got their tokens.
  void admit();

  // The group to be admitted next. Precondition: the waiting queue is not empty.
  SequenceGroup& next_waiting() const;
  // Gives the group's first sequence its cached prefix and blocks for its prompt. Returns false if it does
  // not fit; then only the hints for a later attempt have changed. Either way the group stays in the waiting
  // queue.
  bool try_admit(SequenceGroup& group);
  // True if the limit on adapters lets the group run beside the others.
  bool has_adapter_place(const SequenceGroup& group) const;
  // True if a step that is planned ahead cannot admit the group.
  bool waits_for_step_in_flight(const SequenceGroup& group) const;
  // Starts running a group that is in no queue and whose sequences have blocks; returns its position.
  std::size_t begin_running(SequenceGroup& group);

 private:
  void admit_in_order();
  bool resume_swapped(std::int32_t& num_seqs);  // false: stop admitting
  void run_now(SequenceGroup& group);           // and adds the group to the batch
  bool lacks_blocks_for_gang(SequenceGroup& group, std::int64_t margin) const;
  // True if a sequence of this step computes a prefix that `leader` would otherwise compute again.
  bool prefix_under_way(const SequenceGroup& group, const Sequence& leader, std::int32_t cached);

  SchedulerRecords& records_;
  BatchFiller& filler_;
  Growth& growth_;
  Preemption& preemption_;
  Swapping& swapping_;
  Arrivals& arrivals_;
};

}  // namespace pagoda
