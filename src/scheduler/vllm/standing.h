#pragma once
// Explains why a group runs or waits: the conditions of admission.h, in words. Reads the records and changes
// nothing. Threads: none; the engine thread's.
#include "scheduler/scheduler.h"
#include "scheduler/vllm/scheduler_records.h"

namespace pagoda {

// `group` must not be finished.
Standing standing_of(const SequenceGroup& group, const SchedulerRecords& records);

}  // namespace pagoda
