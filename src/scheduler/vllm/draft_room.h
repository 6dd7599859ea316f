#pragma once
// DraftRoom: drafts ride along with the last token of a sequence where tokens and blocks are left: nobody is
// preempted or put off for them. After the step it keeps the K/V of those that became tokens, and gives up
// the room of the others. Holds no state; who proposes drafts is the engine's business. Threads: none; owned
// by the engine thread.
#include <cstddef>
#include <cstdint>
#include <span>

#include "request/changes.h"
#include "scheduler/vllm/scheduler_records.h"

namespace pagoda {

class DraftRoom {
 public:
  explicit DraftRoom(SchedulerRecords& records) : records_(records) {}

  // How many drafts of the sequence can be computed too, beside `taken` of its tokens, with blocks for them.
  // It belongs to the running group at `position`.
  std::int32_t make(std::size_t position, const Sequence& sequence, std::int32_t taken);

  // After the step: before the changes are applied, and after.
  void keep_accepted(const StepPlan& plan, std::span<const Change> changes);
  void drop_rejected(const StepPlan& plan);

 private:
  SchedulerRecords& records_;
};

}  // namespace pagoda
