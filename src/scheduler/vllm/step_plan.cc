#include "scheduler/vllm/step_plan.h"

#include "base/check.h"
#include "scheduler/group_ops.h"

namespace pagoda {

void StepPlan::begin() {
  CHECK(!in_flight_);
  in_flight_ = true;
  batch_.swap_out.clear();
  batch_.swap_in.clear();
  batch_.block_copies.clear();
  batch_.page_maps.clear();
  batch_.page_maps_ahead.clear();
  batch_.state_copies.clear();
  batch_.tier_moves.clear();
  batch_.sequences.clear();
  batch_.num_tokens = 0;
  references_.clear();
  preempted_.clear();
}

void StepPlan::end() {
  CHECK(in_flight_);
  in_flight_ = false;
}

void StepPlan::take(SequenceGroup& group, Sequence& sequence, std::int32_t count,
                    std::int32_t num_draft_tokens, const KvTables& tables) {
  batch_.sequences.push_back(describe(group, sequence, count, tables, num_draft_tokens));
  batch_.num_tokens += count + num_draft_tokens;
  references_.push_back({&group, &sequence});
}

StepPlan::Mark StepPlan::mark() const {
  return {.num_sequences = batch_.sequences.size(),
          .num_block_copies = batch_.block_copies.size(),
          .num_tokens = batch_.num_tokens};
}

std::int32_t StepPlan::roll_back(const Mark& mark) {
  const std::int32_t taken = batch_.num_tokens - mark.num_tokens;
  batch_.num_tokens = mark.num_tokens;
  batch_.sequences.resize(mark.num_sequences);
  batch_.block_copies.resize(mark.num_block_copies);
  references_.resize(mark.num_sequences);
  return taken;
}

// After update() the batch's views are no longer valid; its ids and counts are.
void StepPlan::check_invariants() const {
  CHECK(batch_.swap_out.empty() || batch_.swap_in.empty());
  CHECK(references_.size() == batch_.sequences.size());
  std::size_t num_tokens = 0;
  for (const ScheduledSequence& sequence : batch_.sequences) num_tokens += sequence.tokens.size();
  CHECK(num_tokens == static_cast<std::size_t>(batch_.num_tokens));
}

}  // namespace pagoda
