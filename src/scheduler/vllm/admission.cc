#include "scheduler/vllm/admission.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "scheduler/group_ops.h"

namespace pagoda {

void Admission::admit() {
  const auto num_waiting = [this] {
    return records_.queues.waiting().size() + records_.queues.swapped().size();
  };
  const std::size_t before = num_waiting();
  records_.budget.set_queue_blocked(false);
  if (before == 0) return;
  admit_in_order();
  records_.budget.set_queue_blocked(records_.budget.left() > 0 && num_waiting() == before);
}

void Admission::admit_in_order() {
  if (records_.queues.any_parked()) return;
  // A group admitted alone may preempt arriving groups, which a step planned ahead must not do.
  if (records_.plan().ahead() && records_.queues.running().empty()) return;
  std::int32_t num_seqs = records_.queues.num_reserved();
  if (!resume_swapped(num_seqs)) return;
  while (!records_.queues.waiting().empty() && records_.budget.left() > 0) {
    SequenceGroup& group = next_waiting();
    if (waits_for_step_in_flight(group)) return;
    if (num_seqs + group.num_reserved() > records_.config.max_num_seqs || !has_adapter_place(group)) return;
    if (arrivals_.begin(group)) {
      num_seqs += group.num_reserved();
      continue;
    }
    if (!try_admit(group)) return;
    num_seqs += group.num_reserved();
    records_.queues.remove(group);
    run_now(group);
    if (has_parked(group)) return;
  }
}

bool Admission::has_adapter_place(const SequenceGroup& group) const {
  return may_bring_adapter(group, records_.queues.running(), records_.config);
}

// With turns, the first waiting group of the tenant whose turn it is; turns change with every step.
SequenceGroup& Admission::next_waiting() const {
  const GroupQueues::Queue& waiting = records_.queues.waiting();
  auto next = waiting.begin();
  if (!records_.takes_turns) return **next;
  std::int64_t least = records_.order.turn((*next)->account);
  for (auto it = std::next(next); it != waiting.end(); ++it) {
    const std::int64_t turn = records_.order.turn((*it)->account);
    if (turn >= least) continue;
    least = turn;
    next = it;
  }
  return **next;
}

std::size_t Admission::begin_running(SequenceGroup& group) {
  if (records_.takes_turns) {
    group.rank = records_.order.admitted(order_record(group.request), group.account,
                                         std::max(0, group.num_cached_tokens));
  }
  return records_.queues.insert_running(group);
}

void Admission::run_now(SequenceGroup& group) {
  const std::size_t position = begin_running(group);
  filler_.add(position, BatchFiller::Siblings::wait);
  // If the leader of a gang was entirely in the prefix cache, it has nothing to compute until its siblings
  // resume.
  if (records_.plan().batch().empty()) filler_.add(position, BatchFiller::Siblings::resume);
}

// A step that is planned ahead admits only groups that are certain to be in its batch: a step without
// sequences is dropped, and the copies that other groups may require must not be dropped with it.
bool Admission::waits_for_step_in_flight(const SequenceGroup& group) const {
  StepPlan& plan = records_.plan();
  if (!plan.ahead() || (!group.lockstep && group.sequences.size() == 1 && group.state == GroupState::waiting))
    return false;
  plan.note_pause();
  return true;
}

bool Admission::resume_swapped(std::int32_t& num_seqs) {
  while (!records_.queues.swapped().empty()) {
    SequenceGroup& group = **records_.queues.swapped().begin();
    if (waits_for_step_in_flight(group)) return false;
    if (records_.budget.left() == 0) return false;
    if (num_seqs + group.num_reserved() > records_.config.max_num_seqs || !has_adapter_place(group))
      return false;
    const bool alone = records_.queues.running().empty();
    const SwapIn back = swap_in_of(group, records_.kv);
    const std::int64_t needed = back.blocks + back.growth;
    // If no group is running, whatever does not fit is parked. Otherwise the group needs blocks for a while,
    // or it would soon be preempted again.
    if (!alone && (needed + records_.watermark_blocks > records_.kv.num_available_blocks() ||
                   !records_.kv.make_ready(needed, back.lengths)))
      return false;
    if (!swapping_.try_swap_in(group, back)) {
      // Besides blocks, a manager may temporarily lack another resource.
      if (!alone) return false;
      if (preemption_.give_up_arrival()) continue;
      // Its own copy of what it shared with a pinned prefix leaves no room for the rest: after recomputation
      // it shares the prefix again.
      preemption_.give_up_swapped(group);
      continue;
    }
    num_seqs += group.num_reserved();
    records_.queues.remove(group);
    run_now(group);
    if (group.state != GroupState::running || has_parked(group)) return false;
  }
  return true;
}

// A gang resumes together, once it can get as many blocks as it held before, plus some to continue.
bool Admission::lacks_blocks_for_gang(SequenceGroup& group, std::int64_t margin) const {
  const std::int64_t available = records_.kv.num_available_blocks();
  if (available < group.retry_free_blocks) return true;
  const std::int64_t gang = group.resume_blocks > 0 ? group.resume_blocks + group.num_live() + margin : 0;
  if (available >= gang) return false;
  group.retry_free_blocks = std::min(gang, records_.kv.num_blocks());
  return true;
}

bool Admission::try_admit(SequenceGroup& group) {
  KvManager& kv = records_.kv;
  TokenBudget& budget = records_.budget;
  const bool alone = records_.queues.running().empty();
  const bool whole = records_.runs_whole(group);
  const std::int64_t margin = alone ? 0 : records_.watermark_blocks;
  if (!alone && lacks_blocks_for_gang(group, margin)) return false;
  const std::int64_t free_before = kv.num_available_blocks();
  const auto leader_at = std::ranges::find_if(group.sequences, [](const auto& s) { return !s->finished(); });
  CHECK(leader_at != group.sequences.end());
  Sequence& leader = **leader_at;
  const std::string salt = group.prefix_salt(), variant = group.kv_variant();
  CacheUse use(salt, group.cache_claim(), group.request.arrival_time);
  use.variant = variant;
  use.adapter = group.request.adapter;
  const std::int32_t cached = kv.add_sequence(leader.id, leader.tokens, use, group.takes_cached_prefix());
  leader.state = SequenceState::resident;
  leader.num_computed_tokens = cached;
  if (alone && records_.plan().batch().empty() && whole) budget.raise_to(leader.num_missing());
  std::int32_t chunk = leader.num_missing();
  if (!whole) chunk = records_.promised_chunk(group, std::min(chunk, budget.left()));
  const auto needed_for = [&](std::int32_t tokens) {
    return kv.pages_to_promise(leader.id, leader.num_tokens(), tokens);
  };
  // If no group is running, small steps are better than none.
  if (alone && !whole && needed_for(chunk) > kv.num_available_blocks()) chunk = 1;
  while (alone && needed_for(chunk) > kv.num_available_blocks() && preemption_.give_up_arrival()) {
  }
  const std::int64_t needed = needed_for(chunk);
  const bool fits = needed + margin <= kv.num_available_blocks();
  const bool in_budget = !whole || leader.num_missing() <= budget.left();
  if (prefix_under_way(group, leader, cached)) {
    release_kv(leader, kv);
    return false;
  }
  if (!fits || !in_budget) {
    CHECK(fits || !alone);
    if (!fits)
      group.retry_free_blocks =
          std::min(kv.num_blocks(), free_before - kv.num_available_blocks() + needed + margin);
    release_kv(leader, kv);
    return false;
  }
  CHECK(kv.promise(leader.id, leader.num_tokens(), chunk));
  std::int32_t one = 1;
  const std::int32_t length = leader.num_tokens();
  if (!kv.make_ready(needed, std::span(&length, 1)) || !growth_.try_grow(group, leader, one)) {
    CHECK(!alone);  // besides blocks, a manager may temporarily lack another resource
    release_kv(leader, kv);
    return false;
  }
  group.retry_free_blocks = 0;
  if (group.num_cached_tokens < 0) group.num_cached_tokens = std::min(cached, leader.num_prompt_tokens);
  return true;
}

// Considers only sequences of this step and of the one in flight: they make progress, so the wait is bounded.
// The wait costs no time either: the common tokens are computed no later than `leader` would compute them.
bool Admission::prefix_under_way(const SequenceGroup& group, const Sequence& leader, std::int32_t cached) {
  KvSharing& sharing = records_.kv.sharing();
  if (!sharing.caches_prefixes() || !group.takes_cached_prefix()) return false;
  const auto computes_more = [&](const ScheduledRef& ref, const ScheduledSequence& scheduled) {
    const Sequence& other = *ref.sequence;
    const bool decodes = scheduled.sample && scheduled.tokens.size() == 1;
    if (decodes || other.finished() || ref.group->prefix_salt() != group.prefix_salt()) return false;
    const std::int32_t common =
        sharing.shareable(other.id, std::min(common_prefix(other, leader), leader.num_tokens() - 1));
    if (common <= cached || common <= scheduled.num_computed_tokens) return false;
    sharing.keep_shareable(other.id, common);
    return true;
  };
  for (const StepPlan* plan : {std::as_const(records_).plan().before(), &std::as_const(records_).plan()}) {
    for (std::size_t i = 0; plan != nullptr && i < plan->references().size(); ++i)
      if (computes_more(plan->references()[i], plan->batch().sequences[i])) return true;
  }
  return false;
}

}  // namespace pagoda
