#pragma once
// Preemption: takes a running group's KV blocks away, all of its sequences' at once (a gang). Its K/V goes to
// the swap space, or it waits to be computed again. Who gives way, and how it comes back, the policy says.
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

  // The group that gives way for the running group at `position`, out of those behind it, the arriving ones
  // first; null: there is none. For the first one every arriving group gives way.
  SequenceGroup* victim_behind(std::size_t position);
  enum class WayBack { any, recompute };
  void preempt(SequenceGroup& group, WayBack way = WayBack::any);
  // Preempts the last arriving group; false: there is none.
  bool give_up_arrival();
  // A swapped group waits, to be recomputed.
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
