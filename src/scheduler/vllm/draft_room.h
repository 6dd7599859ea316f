#pragma once
// DraftRoom: adds drafts after the last token of a sequence if tokens and blocks are left over; no group is
// preempted or delayed for them. After the step it keeps the K/V of accepted drafts and releases the blocks
// of the others. Holds no state; the engine obtains the drafts. Threads: none; owned by the engine thread.
#include <cstddef>
#include <cstdint>
#include <span>

#include "request/changes.h"
#include "scheduler/vllm/scheduler_records.h"

namespace pagoda {

class DraftRoom {
 public:
  explicit DraftRoom(SchedulerRecords& records) : records_(records) {}

  // Returns how many drafts of the sequence can be computed in addition to `taken` of its tokens, and
  // allocates blocks for them. The sequence belongs to the running group at `position`.
  std::int32_t make(std::size_t position, const Sequence& sequence, std::int32_t taken);

  // Called after the step: before and after the changes are applied.
  void keep_accepted(const StepPlan& plan, std::span<const Change> changes);
  void drop_rejected(const StepPlan& plan);

 private:
  SchedulerRecords& records_;
};

}  // namespace pagoda
