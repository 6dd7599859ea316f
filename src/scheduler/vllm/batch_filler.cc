#include "scheduler/vllm/batch_filler.h"

#include <algorithm>

#include "scheduler/group_ops.h"

namespace pagoda {

void BatchFiller::add(std::size_t position, Siblings siblings) {
  SequenceGroup& group = *records_.queues.running()[position];
  TokenBudget& budget = records_.budget;
  StepPlan& plan = records_.plan();
  const StepPlan::Mark before = plan.mark();
  // Beams take a step together, which cannot be undone without undoing the preemptions made for it.
  if (plan.ahead() && (group.lockstep || has_parked(group))) return plan.note_pause();
  if (siblings == Siblings::resume && group.sequences.size() > 1) {
    growth_.resume_siblings(position);
    if (group.state != GroupState::running) return;
  }
  const bool ready = !group.lockstep || lockstep_ready(group);
  // Beams take their step together or not at all. But the oldest group always makes progress, even if the
  // budget was set while some of its beams were parked.
  if (group.lockstep && group.forked && ready && group.num_live() > budget.left()) {
    if (position > 0 || !plan.batch().empty()) return;
    budget.raise_to(group.num_live());
  }
  for (const auto& entry : group.sequences) {
    Sequence& sequence = *entry;
    if (sequence.state != SequenceState::resident) continue;
    std::int32_t count = tokens_for(position, sequence, ready, siblings);
    if (count == 0) continue;
    const Growth::Room room = growth_.make_space(position, sequence, count);
    if (room == Growth::Room::group_preempted) {  // remove what the group already has in the batch
      budget.give_back(plan.roll_back(before));
      return;
    }
    if (room != Growth::Room::ok) continue;
    const std::int32_t num_drafts = drafts_.make(position, sequence, count);
    plan.take(group, sequence, count, num_drafts, records_.kv.tables(sequence.id));
    budget.take(count + num_drafts);
  }
}

// A sequence of a gang that is not ready stops before its last token, from which it would sample.
std::int32_t BatchFiller::tokens_for(std::size_t position, const Sequence& sequence, bool ready,
                                     Siblings siblings) const {
  const TokenBudget& budget = records_.budget;
  const std::int32_t missing = sequence.num_missing();
  if (missing == 1) return ready ? std::min(1, budget.left()) : 0;
  const bool whole = records_.runs_whole(*records_.queues.running()[position]);
  const std::int32_t left =
      siblings == Siblings::wait
          ? budget.left()
          : budget.for_prompt(records_.queues, position,
                              whole ? TokenBudget::Prompt::whole : TokenBudget::Prompt::in_chunks);
  const std::int32_t count = ready ? missing : missing - 1;
  if (whole && count > left) return 0;
  return std::min(count, left);
}

}  // namespace pagoda
