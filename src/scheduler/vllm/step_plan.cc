#include "scheduler/vllm/step_plan.h"

#include "base/check.h"
#include "scheduler/group_ops.h"

namespace pagoda {

void StepPlan::begin(const StepPlan* before) {
  CHECK(!in_flight_);
  before_ = before;
  in_flight_ = planning_ = true;
  pauses_ = false;
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

void StepPlan::end(KvManager& kv) {
  CHECK(in_flight_ && !planning_);
  in_flight_ = false;
  before_ = nullptr;
  for (const ScheduledRef& ref : references_) {
    Sequence& sequence = *ref.sequence;
    if (--sequence.num_in_flight > 0 || !sequence.keeps_kv) continue;
    kv.free(sequence.id);
    sequence.keeps_kv = false;
  }
}

void StepPlan::take(SequenceGroup& group, Sequence& sequence, std::int32_t count,
                    std::int32_t num_draft_tokens, const KvTables& tables) {
  batch_.sequences.push_back(describe(group, sequence, count, tables, num_draft_tokens));
  batch_.num_tokens += count + num_draft_tokens;
  references_.push_back({&group, &sequence});
  ++sequence.num_in_flight;
}

StepPlan::Mark StepPlan::mark() const {
  return {.num_sequences = batch_.sequences.size(),
          .num_block_copies = batch_.block_copies.size(),
          .num_tokens = batch_.num_tokens};
}

std::int32_t StepPlan::roll_back(const Mark& mark) {
  const std::int32_t taken = batch_.num_tokens - mark.num_tokens;
  for (std::size_t i = mark.num_sequences; i < references_.size(); ++i)
    --references_[i].sequence->num_in_flight;
  batch_.num_tokens = mark.num_tokens;
  batch_.sequences.resize(mark.num_sequences);
  batch_.block_copies.resize(mark.num_block_copies);
  references_.resize(mark.num_sequences);
  return taken;
}

// After update() the batch's views are invalid; its ids and counts remain valid.
void StepPlan::check_invariants() const {
  CHECK(batch_.swap_out.empty() || batch_.swap_in.empty());
  CHECK(references_.size() == batch_.sequences.size());
  std::size_t num_tokens = 0;
  for (const ScheduledSequence& sequence : batch_.sequences) num_tokens += sequence.tokens.size();
  CHECK(num_tokens == static_cast<std::size_t>(batch_.num_tokens));
}

StepPlan& StepPlans::begin() {
  const StepPlan* before = nullptr;
  if (latest().in_flight()) {
    before = &latest();
    latest_ = 1 - latest_;
  }
  latest().begin(before);
  return latest();
}

void StepPlans::drop(KvManager& kv) {
  const ScheduledBatch& batch = latest().batch();
  CHECK(!batch.has_work() && batch.block_copies.empty() && batch.swap_in.empty() && batch.swap_out.empty());
  latest().end(kv);
  latest_ = 1 - latest_;
}

void StepPlans::check_invariants() const {
  for (const StepPlan& plan : plans_) plan.check_invariants();
}

}  // namespace pagoda
