#pragma once
// Newcomers: with fair scheduling, a tenant without running requests is admitted before the step is planned,
// and may preempt a tenant with many. If all newcomers' prompts are short, the step runs only them and the
// groups ahead of them; the others pause, but never twice in a row. Threads: none; owned by the engine
// thread.
#include <cstdint>

#include "scheduler/vllm/admission.h"
#include "scheduler/vllm/preemption.h"
#include "scheduler/vllm/scheduler_records.h"

namespace pagoda {

class Newcomers {
 public:
  Newcomers(SchedulerRecords& records, Admission& admission, Preemption& preemption, Arrivals& arrivals)
      : records_(records), admission_(admission), preemption_(preemption), arrivals_(arrivals) {}

  // Called at the start of a step. Sets how many running groups take part in it.
  void admit();

 private:
  bool make_place(SequenceGroup& newcomer, std::int32_t num_seqs);

  SchedulerRecords& records_;
  Admission& admission_;
  Preemption& preemption_;
  Arrivals& arrivals_;
  bool was_short_ = false;  // the last step ran only newcomers and the groups ahead of them
};

}  // namespace pagoda
