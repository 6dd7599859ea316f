#include "scheduler/vllm/draft_room.h"

#include <algorithm>

namespace pagoda {

std::int32_t DraftRoom::make(std::size_t position, const Sequence& sequence, std::int32_t taken) {
  KvManager& kv = records_.kv;
  // If accepted drafts are recomputed, they may be missing in addition to the last token.
  const std::int32_t most_missing = records_.has_states ? std::max(1, sequence.num_output_tokens()) : 1;
  if (sequence.draft.empty() || taken < sequence.num_missing() || taken > most_missing) return 0;
  std::int32_t count = std::min(static_cast<std::int32_t>(sequence.draft.size()),
                                records_.budget.for_drafts(records_.queues, position));
  std::int64_t reserve = records_.watermark_blocks;  // each running sequence may need one more block
  for (const SequenceGroup* group : records_.queues.running()) reserve += std::ssize(group->sequences);
  for (; count > 0; --count) {
    const std::int64_t blocks = kv.blocks_to_grow(sequence.id, sequence.num_tokens() + count);
    if (blocks > 0 && blocks + reserve > kv.num_available_blocks()) continue;
    if (kv.grow(sequence.id, sequence.num_tokens() + count, records_.plan().batch().block_copies))
      return count;
  }
  return 0;
}

// The K/V of accepted drafts is valid, also if the sequence ends: other requests may find it in the prefix
// cache. Recurrent states have not advanced by the drafts: these are computed again, with the next token.
void DraftRoom::keep_accepted(const StepPlan& plan, std::span<const Change> changes) {
  if (records_.has_states) return;
  const std::span<const ScheduledRef> references = plan.references();
  for (std::size_t i = 0; i < references.size(); ++i) {
    if (plan.batch().sequences[i].num_draft_tokens == 0) continue;
    Sequence& sequence = *references[i].sequence;
    const auto appended = std::ranges::count_if(changes, [&](const Change& change) {
      return change.sequence == &sequence && change.verb == Verb::append;
    });
    if (appended < 2) continue;  // the first append is the sampled token, not a draft
    sequence.num_computed_tokens += static_cast<std::int32_t>(appended) - 1;
    if (records_.takes_turns) records_.order.served(references[i].group->account, 0, appended - 1);
    records_.kv.computed(sequence.id, sequence.drafted, sequence.num_computed_tokens);
  }
}

void DraftRoom::drop_rejected(const StepPlan& plan) {
  const std::span<const ScheduledRef> references = plan.references();
  for (std::size_t i = 0; i < references.size(); ++i) {
    if (plan.batch().sequences[i].num_draft_tokens == 0) continue;
    Sequence& sequence = *references[i].sequence;
    sequence.draft.clear();
    if (sequence.state == SequenceState::resident) records_.kv.shrink(sequence.id, sequence.num_tokens());
  }
}

}  // namespace pagoda
