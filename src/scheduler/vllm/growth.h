#pragma once
// Growth: allocates KV blocks for running sequences, and preempts others if none are free. A sequence gets
// blocks for the tokens of its step. Victims are later groups; the oldest group, alone, parks its last
// sequences. Holds no state. Invariant: no group is preempted for a later one (engine.progress).
// Source: PagedAttention (SOSP'23) §4.5. Threads: none; owned by the engine thread.
#include <cstddef>
#include <cstdint>

#include "scheduler/vllm/preemption.h"
#include "scheduler/vllm/scheduler_records.h"

namespace pagoda {

class Growth {
 public:
  Growth(SchedulerRecords& records, Preemption& preemption) : records_(records), preemption_(preemption) {}

  // Allocates blocks for `count` more tokens, or for as many as fit, and sets `count` to that number. Returns
  // false, with nothing changed, if no token fits.
  bool try_grow(const SequenceGroup& group, Sequence& sequence, std::int32_t& count);

  // The same for a sequence of the running group at `position`, preempting others if necessary. pauses: the
  // sequence skips this step, because a step planned ahead does not preempt.
  enum class Room { ok, group_preempted, sequence_parked, pauses };
  Room make_space(std::size_t position, Sequence& sequence, std::int32_t& count);

  // Resumes as many parked sequences of the running group at `position` as fit; they share blocks with their
  // siblings. Beams run together: others are preempted for them, or the group itself is.
  void resume_siblings(std::size_t position);

 private:
  bool promise_rest(const SequenceGroup& group, const Sequence& sequence, std::int32_t chunk);
  bool resume_sibling(std::size_t position, Sequence& sequence);
  // The resident sequence with the most shared tokens; also returns their number, and how many sequences are
  // resident.
  const Sequence& nearest_sibling(const SequenceGroup& group, const Sequence& sequence, std::int32_t& shared,
                                  std::int32_t& num_resident) const;

  SchedulerRecords& records_;
  Preemption& preemption_;
};

}  // namespace pagoda
