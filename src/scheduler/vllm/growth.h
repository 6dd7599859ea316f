#pragma once
// Growth: KV blocks for those who run, and who gives way for them. A running sequence gets blocks for the
// tokens of its step; where there are none, a later group is preempted, and the oldest, alone, parks its
// last sequences. Holds no state. Invariant: nobody gives way to a later one (engine.progress).
// Source: PagedAttention (SOSP'23) §4.5. Threads: none; owned by the engine thread.
#include <cstddef>
#include <cstdint>

#include "scheduler/vllm/preemption.h"
#include "scheduler/vllm/scheduler_records.h"

namespace pagoda {

class Growth {
 public:
  Growth(SchedulerRecords& records, Preemption& preemption) : records_(records), preemption_(preemption) {}

  // Blocks for `count` more tokens, or for as many of them as there is room for: `count` says how many.
  // False, with nothing changed: there is no room.
  bool try_grow(const SequenceGroup& group, Sequence& sequence, std::int32_t& count);

  // The same for a sequence of the running group at `position`, and others give way for it.
  // pauses: nobody gives way for a step that is planned ahead.
  enum class Room { ok, group_preempted, sequence_parked, pauses };
  Room make_space(std::size_t position, Sequence& sequence, std::int32_t& count);

  // Parked sequences of the running group at `position` share blocks with their siblings again, as many as
  // there is room for. Beams need each other: others give way, or the group itself is preempted.
  void resume_siblings(std::size_t position);

 private:
  bool promise_rest(const SequenceGroup& group, const Sequence& sequence, std::int32_t chunk);
  bool resume_sibling(std::size_t position, Sequence& sequence);
  // Among the resident ones; the number of tokens that it shares, and the number of those.
  const Sequence& nearest_sibling(const SequenceGroup& group, const Sequence& sequence, std::int32_t& shared,
                                  std::int32_t& num_resident) const;

  SchedulerRecords& records_;
  Preemption& preemption_;
};

}  // namespace pagoda
