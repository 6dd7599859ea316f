#pragma once
// BatchFiller: puts the tokens that a running group misses into the batch, as far as budget and blocks go:
// decodes, prompts whole or in chunks, beams together, and drafts beside them. If the group has to give way
// in the middle, it is taken out of the batch again. Holds no state.
// Threads: none; owned by the engine thread.
#include <cstddef>

#include "scheduler/vllm/draft_room.h"
#include "scheduler/vllm/growth.h"
#include "scheduler/vllm/scheduler_records.h"

namespace pagoda {

class BatchFiller {
 public:
  BatchFiller(SchedulerRecords& records, Growth& growth, DraftRoom& drafts)
      : records_(records), growth_(growth), drafts_(drafts) {}

  // `resume`: parked sequences of the group are tried first. `wait`: it has just been admitted, and whoever
  // it might displace is in the batch already; its prompt need not leave tokens for later decodes.
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
