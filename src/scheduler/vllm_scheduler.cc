#include "scheduler/vllm_scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "scheduler/group_ops.h"
#include "scheduler/vllm/request_check.h"
#include "scheduler/vllm/standing.h"

namespace pagoda {

VllmScheduler::VllmScheduler(const SchedulerConfig& config, KvManager& kv,
                             std::unique_ptr<AdmissionOrder> order,
                             std::unique_ptr<PreemptionPolicy> preemption)
    : order_(order ? std::move(order) : make_admission_order(config.policy)),
      preemption_policy_(preemption ? std::move(preemption) : make_preemption_policy(config.preemption_mode)),
      records_(config, kv, *order_),
      swapping_(records_, *preemption_policy_),
      preemption_(records_, swapping_, *preemption_policy_),
      growth_(records_, preemption_),
      drafts_(records_),
      filler_(records_, growth_, drafts_),
      arrivals_(records_),
      admission_(records_, filler_, growth_, preemption_, swapping_, arrivals_),
      newcomers_(records_, admission_, preemption_, arrivals_) {
  CHECK(config.max_num_seqs > 0 && config.max_num_batched_tokens > 0 && config.max_model_len > 0);
  // A prompt that must run whole needs a budget that holds any prompt.
  CHECK(config.enable_chunked_prefill || config.max_num_batched_tokens >= config.max_model_len);
}

Status VllmScheduler::validate(const Request& request) const {
  return check_runs_alone(request, records_.config, records_.kv);
}

void VllmScheduler::add(SequenceGroup& group) {
  CHECK(group.sequences.size() == 1);
  group.order = ++next_order_;
  group.rank = order_->arrived(order_record(group.request), group.account);
  records_.queues.insert_waiting(group);
}

ScheduledBatch& VllmScheduler::schedule() {
  GroupQueues& queues = records_.queues;
  StepPlan& plan = records_.plans.begin();
  KvManager& kv = records_.kv;
  if (plan.ahead()) expect(*plan.before());
  records_.budget.begin_step();
  arrivals_.settle();
  queues.set_num_in_turn(queues.running().size());
  if (records_.takes_turns) newcomers_.admit();
  const bool all_in_turn = queues.all_in_turn();
  // Oldest first, so that a group that is preempted has not been added to the batch yet.
  for (std::size_t i = 0; i < queues.in_turn().size(); ++i) filler_.add(i, BatchFiller::Siblings::resume);
  queues.set_num_in_turn(queues.running().size());
  // A group that was just preempted must not return at once, and no group ahead of it may be admitted either.
  if (plan.preempted().empty() && !plan.pauses() && all_in_turn) admission_.admit();
  ScheduledBatch& batch = plan.batch();
  CHECK(!batch.empty() || queues.empty() || !queues.arriving().empty() || plan.ahead());
  for (std::size_t i = 0; records_.has_states && i < batch.sequences.size(); ++i) {
    const ScheduledSequence& sequence = batch.sequences[i];
    const auto tokens = static_cast<std::int32_t>(sequence.tokens.size()) - sequence.num_draft_tokens;
    kv.copy_states(sequence.id, static_cast<std::int32_t>(i), sequence.num_computed_tokens + tokens,
                   batch.state_copies);
  }
  if (!batch.empty()) kv.take_page_mappings(batch.page_maps, batch.page_maps_ahead);
  kv.tiering().take(batch.tier_moves);
  if (plan.ahead()) expect_no_more(*plan.before());
  plan.planned();
  return batch;
}

// Adds one expected token to each sequence that draws, unless that token is certain to be its last.
void VllmScheduler::expect(const StepPlan& in_flight) const {
  for (std::size_t i = 0; i < in_flight.references().size(); ++i) {
    const ScheduledRef& ref = in_flight.references()[i];
    const ScheduledSequence& scheduled = in_flight.batch().sequences[i];
    Sequence& sequence = *ref.sequence;
    if (sequence.state != SequenceState::resident) continue;
    CHECK(scheduled.num_draft_tokens == 0);
    sequence.num_computed_tokens += static_cast<std::int32_t>(scheduled.tokens.size());
    if (!scheduled.sample ||
        sequence.num_tokens() + 1 >= max_tokens_of(ref.group->request, records_.config.max_model_len))
      continue;
    sequence.num_expected = 1;
    sequence.place_in_flight = static_cast<std::int32_t>(i);
  }
}

void VllmScheduler::expect_no_more(const StepPlan& in_flight) {
  for (std::size_t i = 0; i < in_flight.references().size(); ++i) {
    Sequence& sequence = *in_flight.references()[i].sequence;
    if (sequence.state != SequenceState::resident) continue;
    sequence.num_computed_tokens -= static_cast<std::int32_t>(in_flight.batch().sequences[i].tokens.size());
    sequence.num_expected = 0;
    sequence.place_in_flight = -1;
  }
}

void VllmScheduler::computed() {
  const StepPlan& plan = records_.plans.oldest();
  CHECK(plan.in_flight());
  const ScheduledBatch& batch = plan.batch();
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const ScheduledRef& ref = plan.references()[i];
    Sequence& sequence = *ref.sequence;
    if (sequence.finished()) continue;
    const std::int32_t count =
        static_cast<std::int32_t>(batch.sequences[i].tokens.size()) - batch.sequences[i].num_draft_tokens;
    // A recomputed token is charged like a prompt token.
    const bool decode = count == 1 && sequence.num_computed_tokens >= sequence.num_prompt_tokens;
    if (records_.takes_turns) order_->served(ref.group->account, decode ? 0 : count, decode ? 1 : 0);
    sequence.num_computed_tokens += count;
    records_.kv.computed(sequence.id, sequence.tokens, sequence.num_computed_tokens);
  }
}

void VllmScheduler::update(std::span<Change> changes) {
  StepPlan& plan = records_.plans.oldest();
  plan.end(records_.kv);
  drafts_.keep_accepted(plan, changes);
  bool any_freed = false;
  for (Change& change : changes) {
    apply_change(change, records_.kv);
    any_freed |= change.verb == Verb::free;
  }
  drafts_.drop_rejected(plan);
  if (!any_freed) return;
  for (const Change& change : changes) {
    if (change.verb == Verb::free && !change.group->finished()) settle(*change.group);
  }
}

void VllmScheduler::settle(SequenceGroup& group) {
  if (group.num_live() == 0) {
    records_.queues.remove(group);
    group.state = GroupState::finished;
    if (records_.takes_turns) order_->left(group.account);
    return;
  }
  // All sequences with K/V may be gone while parked siblings remain: the group then starts over from the
  // queue.
  const auto none = [&group](SequenceState state) {
    return std::ranges::none_of(group.sequences, [=](const auto& s) { return s->state == state; });
  };
  if (group.state == GroupState::running && none(SequenceState::resident)) preemption_.preempt(group);
  if (group.state == GroupState::arriving && none(SequenceState::arriving)) {
    records_.queues.remove(group);
    records_.queues.insert_waiting(group);
  }
  if (group.state == GroupState::swapped && none(SequenceState::swapped)) preemption_.give_up_swapped(group);
}

void VllmScheduler::abort(SequenceGroup& group) {
  CHECK(!group.finished());
  for (const auto& sequence : group.sequences) {
    if (!sequence->finished()) finish_sequence(*sequence, FinishReason::abort, records_.kv);
  }
  settle(group);
}

void VllmScheduler::abort_sequence(SequenceGroup& group, Sequence& sequence) {
  if (sequence.finished()) return;
  finish_sequence(sequence, FinishReason::abort, records_.kv);
  settle(group);
}

void VllmScheduler::set_preemption_costs(const PreemptionCosts& costs) {
  swapping_.set_costs(costs);
  records_.kv.tiering().set_compute_cost(costs.per_token_recomputed);
}

Standing VllmScheduler::standing(const SequenceGroup& group) const { return standing_of(group, records_); }

SchedulerCounts VllmScheduler::counts() const {
  const GroupQueues& queues = records_.queues;
  SchedulerCounts out;
  out.waiting_groups = static_cast<std::int64_t>(queues.waiting().size() + queues.arriving().size());
  out.running_groups = static_cast<std::int64_t>(queues.running().size());
  for (const SequenceGroup* group : queues.running()) out.running_sequences += group->num_live();
  out.swapped_groups = static_cast<std::int64_t>(queues.swapped().size());
  out.preemptions = preemption_.num_preemptions();
  out.preemptions_by_swap = swapping_.num_groups_out();
  out.blocks_swapped_out = swapping_.num_blocks_out();
  out.blocks_swapped_in = swapping_.num_blocks_in();
  return out;
}

void VllmScheduler::check_invariants() const {
  records_.kv.inspection().check_invariants();
  records_.queues.check_invariants();
  records_.plans.check_invariants();
  CHECK(records_.queues.num_reserved() <= records_.config.max_num_seqs);
  CHECK(records_.config.max_adapters == 0 ||
        num_adapters(records_.queues.running()) <= records_.config.max_adapters);
  CHECK(records_.plan().batch().num_tokens <= records_.config.max_num_batched_tokens);
}

}  // namespace pagoda
