// Swapping of VllmScheduler: the choice between it and recomputation, and the way back.
#include <algorithm>

#include "base/check.h"
#include "scheduler/group_ops.h"
#include "scheduler/vllm_scheduler.h"

namespace pagoda {

bool VllmScheduler::try_swap_out(SequenceGroup& group, std::span<const SequenceId> resident) {
  if (config_.preemption_mode == PreemptionMode::recompute || resident.empty()) return false;
  if (!batch_.swap_in.empty()) return false;  // it would be told to copy both ways through the same blocks
  const SwapCost cost = swap_.swap_cost(resident);
  const std::int64_t blocks = cost.pages;
  if (blocks == 0) return false;  // nothing is computed
  if (config_.preemption_mode == PreemptionMode::automatic && !swap_is_cheaper(costs_, blocks, cost.tokens))
    return false;
  const std::size_t first = batch_.swap_out.size();
  if (!swap_.swap_out(resident, batch_.swap_out)) return false;
  // A copy-on-write that this step had planned for the group does not happen: its content is still at the
  // source, and swapping out comes before all other copies.
  for (SwapCopy& swap : std::span(batch_.swap_out).subspan(first)) {
    for (const BlockCopy& copy : batch_.block_copies) {
      if (copy.to == swap.block) swap.block = copy.from;
    }
  }
  for (const auto& sequence : group.sequences) {
    if (sequence->state == SequenceState::resident) sequence->state = SequenceState::swapped;
  }
  ++num_swap_preemptions_;
  num_swapped_out_ += blocks;
  return true;
}

void VllmScheduler::give_up_swapped(SequenceGroup& group) {
  for (const auto& sequence : group.sequences) release_kv(*sequence, kv_);
  swapped_.erase(&group);
  group.resume_blocks = 0;
  wait_again(group);
}

bool VllmScheduler::resume_swapped(std::int32_t& num_seqs) {
  while (!swapped_.empty()) {
    SequenceGroup& group = **swapped_.begin();
    if (tokens_left_ == 0 || num_seqs + group.num_reserved() > config_.max_num_seqs) return false;
    std::vector<SequenceId> ids;
    std::vector<std::int32_t> lengths;
    std::int64_t growth = 0;  // at most
    for (const auto& sequence : group.sequences) {
      if (sequence->state != SequenceState::swapped) continue;
      ids.push_back(sequence->id);
      growth += geometry_.pages_to_go_on(sequence->num_missing());
      lengths.push_back(sequence->num_tokens());
    }
    const std::int64_t blocks = swap_.swap_cost(ids).pages;
    // Alone, it parks what does not fit. Else it needs room to go on for a while, or it would be back soon.
    if (!running_.empty() && (blocks + growth + watermark_blocks_ > kv_.num_available_blocks() ||
                              !kv_.make_ready(blocks + growth, lengths)))
      return false;
    CHECK(batch_.swap_out.empty());
    if (!swap_.swap_in(ids, batch_.swap_in)) {
      // Beside blocks, a manager may lack something else for the moment.
      if (!running_.empty()) return false;
      // Its own copy of what it shared with a pinned prefix leaves no room for the rest: recomputed, it
      // shares that again.
      give_up_swapped(group);
      continue;
    }
    num_swapped_in_ += blocks;
    for (const auto& sequence : group.sequences) {
      if (sequence->state == SequenceState::swapped) sequence->state = SequenceState::resident;
    }
    num_seqs += group.num_reserved();
    swapped_.erase(swapped_.begin());
    run_now(group);
    if (group.state != GroupState::running || has_parked(group)) return false;
  }
  return true;
}

}  // namespace pagoda
