#pragma once
// Swapping: moves the K/V of preempted groups to the swap space and back, as copies in the step's batch. All
// sequences of a group move together. It does not choose the groups. A step that copies in one direction does
// not copy in the other.
// Source: PagedAttention (SOSP'23) §4.5. Threads: none; owned by the engine thread.
#include <cstdint>
#include <span>
#include <vector>

#include "request/ids.h"
#include "scheduler/preemption_policy.h"
#include "scheduler/vllm/scheduler_records.h"

namespace pagoda {

// The requirements for swapping a group in: its sequences, their lengths, the blocks to copy, and the maximum
// number of blocks (growth) to continue for a while.
struct SwapIn {
  std::vector<SequenceId> ids;
  std::vector<std::int32_t> lengths;
  std::int64_t blocks = 0, growth = 0;
};
SwapIn swap_in_of(const SequenceGroup& group, const KvManager& kv);

class Swapping {
 public:
  // Borrows both; the policy decides whether a group is swapped out at all.
  Swapping(SchedulerRecords& records, PreemptionPolicy& policy)
      : records_(records), policy_(policy), swap_(records.kv.swap()) {}

  void set_costs(const PreemptionCosts& costs) { costs_ = costs; }

  // Returns false, with nothing changed, if the `resident` sequences have to be recomputed.
  bool try_swap_out(SequenceGroup& group, std::span<const SequenceId> resident);

  // Returns false, with nothing changed, if there are not enough free blocks.
  bool try_swap_in(SequenceGroup& group, const SwapIn& back);

  std::int64_t num_groups_out() const { return num_groups_out_; }  // since the start, like the block counts
  std::int64_t num_blocks_out() const { return num_blocks_out_; }
  std::int64_t num_blocks_in() const { return num_blocks_in_; }

 private:
  SchedulerRecords& records_;
  PreemptionPolicy& policy_;
  KvSwap& swap_;
  PreemptionCosts costs_;
  std::int64_t num_groups_out_ = 0, num_blocks_out_ = 0, num_blocks_in_ = 0;
};

}  // namespace pagoda
