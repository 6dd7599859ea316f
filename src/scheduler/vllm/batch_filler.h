#pragma once
// BatchFiller: adds the uncomputed tokens of a running group to the batch, within the budget and the free
// blocks: decodes, whole or chunked prompts, beams together, and drafts. A group that is preempted meanwhile
// is removed from the batch. Holds no state. Threads: none; owned by the engine thread.
#include <cstddef>

#include "scheduler/vllm/draft_room.h"
#include "scheduler/vllm/growth.h"
#include "scheduler/vllm/scheduler_records.h"

namespace pagoda {

class BatchFiller {
 public:
  BatchFiller(SchedulerRecords& records, Growth& growth, DraftRoom& drafts)
      : records_(records), growth_(growth), drafts_(drafts) {}

  // `resume`: parked sequences of the group are resumed first. `wait`: the group was just admitted; groups
  // that it could preempt are already in the batch, so its prompt need not leave tokens for later decodes.
  enum class Siblings { wait, resume };
  void add(std::size_t position, Siblings siblings);

 private:
  std::int32_t tokens_for(std::size_t position, const Sequence& sequence, bool ready,
                          Siblings siblings) const;

  SchedulerRecords& records_;
  Growth& growth_;
  DraftRoom& drafts_;
};

}  // namespace pagoda
