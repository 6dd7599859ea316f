#include "scheduler/vllm/preemption.h"

#include <span>
#include <vector>

#include "base/check.h"
#include "scheduler/group_ops.h"

namespace pagoda {
namespace {

PreemptionCandidate candidate_of(const SequenceGroup& group) {
  PreemptionCandidate out{.tenant = group.request.tenant,
                          .priority = group.request.priority,
                          .num_sequences = group.num_live(),
                          .num_preemptions = group.num_preemptions};
  for (const auto& sequence : group.sequences) {
    if (sequence->finished()) continue;
    out.num_computed_tokens += sequence->num_computed_tokens;
    out.num_output_tokens += sequence->num_output_tokens();
  }
  return out;
}

}  // namespace

SequenceGroup* Preemption::victim_after(std::size_t position) {
  const auto behind = std::span(records_.queues.running()).subspan(position + 1);
  const GroupQueues::Queue& arriving = records_.queues.arriving();
  if (!arriving.empty()) {
    SequenceGroup* const last = *arriving.rbegin();
    const bool may_take = position == 0 && behind.empty();
    if (may_take || GroupQueues::Before{}(records_.queues.running()[position], last)) return last;
  }
  if (behind.empty()) return nullptr;
  candidates_.clear();
  for (const SequenceGroup* group : behind) candidates_.push_back(candidate_of(*group));
  const std::size_t victim = policy_.victim(candidates_);
  CHECK(victim < behind.size());
  return behind[victim];
}

void Preemption::preempt(SequenceGroup& group, WayBack way) {
  std::vector<SequenceId> ids;
  for (const auto& sequence : group.sequences) {
    if (sequence->state == SequenceState::resident) ids.push_back(sequence->id);
  }
  group.retry_free_blocks = 0;
  ++group.num_preemptions;
  ++num_preemptions_;
  const bool was_running = group.state == GroupState::running;  // otherwise it was arriving
  records_.queues.remove(group);
  if (records_.takes_turns && was_running) records_.order.preempted(group.account);
  if (way == WayBack::any && swapping_.try_swap_out(group, ids)) {
    records_.queues.insert_swapped(group);
  } else {
    group.resume_blocks = ids.size() > 1 ? records_.kv.sharing().blocks_owned_by(ids) : 0;
    for (const auto& sequence : group.sequences) release_kv(*sequence, records_.kv);
    wait_again(group);
  }
  records_.plan().add_preempted(group);
}

bool Preemption::give_up_arrival() {
  if (records_.queues.arriving().empty()) return false;
  preempt(**records_.queues.arriving().rbegin());
  return true;
}

void Preemption::give_up_swapped(SequenceGroup& group) {
  for (const auto& sequence : group.sequences) release_kv(*sequence, records_.kv);
  records_.queues.remove(group);
  group.resume_blocks = 0;
  wait_again(group);
}

void Preemption::wait_again(SequenceGroup& group) {
  group.asked_tiers = false;
  if (records_.takes_turns) group.rank = group.account.rank;
  records_.queues.insert_waiting(group);
}

}  // namespace pagoda
