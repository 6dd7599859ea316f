#include "scheduler/vllm/swapping.h"

#include "base/check.h"

namespace pagoda {

SwapIn swap_in_of(const SequenceGroup& group, const KvManager& kv) {
  SwapIn out;
  for (const auto& sequence : group.sequences) {
    if (sequence->state != SequenceState::swapped) continue;
    out.ids.push_back(sequence->id);
    out.lengths.push_back(sequence->num_tokens());
    out.growth += kv.geometry().pages_to_go_on(sequence->num_missing());
  }
  out.blocks = kv.swap().swap_cost(out.ids).pages;
  return out;
}

bool Swapping::try_swap_out(SequenceGroup& group, std::span<const SequenceId> resident) {
  ScheduledBatch& batch = records_.plan().batch();
  if (facts(records_.config.preemption_mode).recovery == Recovery::recomputed || resident.empty())
    return false;
  // The batch would copy in both directions through the same blocks.
  if (!batch.swap_in.empty()) return false;
  const SwapCost cost = swap_.swap_cost(resident);
  if (cost.pages == 0) return false;  // nothing is computed
  if (!policy_.swaps(cost, costs_)) return false;
  const std::size_t first = batch.swap_out.size();
  if (!swap_.swap_out(resident, batch.swap_out)) return false;
  // A copy-on-write that this step had planned for the group will not happen: the content is still at the
  // source, and swapping out precedes all other copies.
  for (SwapCopy& swap : std::span(batch.swap_out).subspan(first)) {
    for (const BlockCopy& copy : batch.block_copies) {
      if (copy.to == swap.block) swap.block = copy.from;
    }
  }
  for (const auto& sequence : group.sequences) {
    if (sequence->state == SequenceState::resident) sequence->state = SequenceState::swapped;
  }
  ++num_groups_out_;
  num_blocks_out_ += cost.pages;
  return true;
}

bool Swapping::try_swap_in(SequenceGroup& group, const SwapIn& back) {
  ScheduledBatch& batch = records_.plan().batch();
  CHECK(batch.swap_out.empty());
  if (!swap_.swap_in(back.ids, batch.swap_in)) return false;
  num_blocks_in_ += back.blocks;
  for (const auto& sequence : group.sequences) {
    if (sequence->state == SequenceState::swapped) sequence->state = SequenceState::resident;
  }
  return true;
}

}  // namespace pagoda
