#pragma once
// Arrivals: groups whose prompt's K/V comes from a tier. While it is on the way such a group holds blocks and
// a place under max_num_seqs, but takes no tokens; it can be aborted, and gives its blocks up to whoever
// comes before it.
//
//     waiting --begin--> arriving --settle, when all has come or is lost--> waiting, and its prefix is in the
//     pool
//
// Each group asks once for each time that it waits, and peers before that, so whatever is lost is computed.
// Threads: none; owned by the engine thread.
#include "scheduler/vllm/scheduler_records.h"

namespace pagoda {

class Arrivals {
 public:
  explicit Arrivals(SchedulerRecords& records) : records_(records) {}

  // True: the waiting group is arriving now.
  bool begin(SequenceGroup& group);
  // At the start of a step.
  void settle();

 private:
  SchedulerRecords& records_;
};

}  // namespace pagoda
