#pragma once
// Arrivals: groups whose prompt's K/V is being fetched from a tier. Meanwhile such a group holds blocks and
// counts towards max_num_seqs, but gets no tokens. It can be aborted, and gives up its blocks to an earlier
// group.
//
//     waiting --begin--> arriving --settle, when all has come or is lost--> waiting, and its prefix is in the
//     pool
//
// A group asks once per wait (peers before other tiers); K/V that is lost is computed.
// Threads: none; owned by the engine thread.
#include "scheduler/vllm/scheduler_records.h"

namespace pagoda {

class Arrivals {
 public:
  explicit Arrivals(SchedulerRecords& records) : records_(records) {}

  // Returns true if the waiting group is arriving now.
  bool begin(SequenceGroup& group);
  // Called at the start of a step.
  void settle();

 private:
  SchedulerRecords& records_;
};

}  // namespace pagoda
