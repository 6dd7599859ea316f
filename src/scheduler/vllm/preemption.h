#pragma once
// Preemption: takes away the KV blocks of a running group, of all its sequences at once (a gang). Its K/V
// moves to the swap space, or the group waits to be recomputed. The policy chooses the group and the way
// back.
//     running --preempt--> swapped, or waiting;   swapped --give_up_swapped--> waiting
// Source: PagedAttention (SOSP'23) §4.5. Threads: none; owned by the engine thread.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/preemption_policy.h"
#include "scheduler/vllm/scheduler_records.h"
#include "scheduler/vllm/swapping.h"

namespace pagoda {

class Preemption {
 public:
  Preemption(SchedulerRecords& records, Swapping& swapping, PreemptionPolicy& policy)
      : records_(records), swapping_(swapping), policy_(policy) {}

  // The group to preempt for the running group at `position`, chosen from the groups behind it, arriving ones
  // first; null if there is none. For the first running group, any arriving group may be preempted.
  SequenceGroup* victim_after(std::size_t position);
  enum class WayBack { any, recompute };
  void preempt(SequenceGroup& group, WayBack way = WayBack::any);
  // Preempts the last arriving group. Returns false if there is none.
  bool give_up_arrival();
  // Moves a swapped-out group back to the waiting queue, to be recomputed.
  void give_up_swapped(SequenceGroup& group);

  std::int64_t num_preemptions() const { return num_preemptions_; }  // since the start

 private:
  void wait_again(SequenceGroup& group);

  SchedulerRecords& records_;
  Swapping& swapping_;
  PreemptionPolicy& policy_;
  std::vector<PreemptionCandidate> candidates_;  // kept for its capacity
  std::int64_t num_preemptions_ = 0;
};

}  // namespace pagoda
