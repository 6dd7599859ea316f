// VllmScheduler under an order with turns: tenants of which nothing runs are let in before anyone is
// scheduled.
#include <algorithm>

#include "scheduler/group_ops.h"
#include "scheduler/vllm_scheduler.h"

namespace pagoda {
namespace {
constexpr std::int32_t kFewDecodes = 16;  // beside so many a prompt takes little longer
}  // namespace

void VllmScheduler::begin_running(SequenceGroup& group) {
  group.state = GroupState::running;
  if (!takes_turns_) return;
  group.rank =
      order_->let_in(order_record(group.request), group.account, std::max(0, group.num_cached_tokens));
}

void VllmScheduler::wait_again(SequenceGroup& group) {
  group.state = GroupState::waiting;
  if (takes_turns_) group.rank = group.account.rank;
  waiting_.insert(&group);
}

// Takes a place from a tenant that has many; the group that gives way is computed once more, since while
// anybody is swapped out nobody is admitted. False: there is none.
bool VllmScheduler::make_place(SequenceGroup& newcomer, std::int32_t num_seqs) {
  const bool fits = num_seqs + newcomer.num_reserved() <= config_.max_num_seqs;
  if (fits && try_admit(newcomer)) return true;
  if (running_.empty()) return false;
  SequenceGroup& last = *running_.back();
  if (!order_->may_displace(newcomer.account, last.account)) return false;
  const std::int32_t freed = last.num_reserved();
  preempt(last, /*may_swap=*/false);
  return make_place(newcomer, num_seqs - freed);
}

void VllmScheduler::let_newcomers_in() {
  std::int32_t num_seqs = 0;
  for (const SequenceGroup* group : running_) {
    if (has_parked(*group)) return;
    num_seqs += group->num_reserved();
  }
  const SequenceGroup* shortest_turn = nullptr;  // the last of them, if all have short prompts
  bool all_short = !was_short_;
  std::int32_t tokens = 0;
  while (!waiting_.empty()) {
    SequenceGroup& group = next_waiting();
    if (!order_->is_newcomer(group.account)) break;
    if (!make_place(group, num_seqs)) break;
    waiting_.erase(&group);
    begin_running(group);
    running_.insert(std::ranges::upper_bound(running_, &group, waiting_.key_comp()), &group);
    num_seqs = 0;
    for (const SequenceGroup* other : running_) num_seqs += other->num_reserved();
    for (const auto& sequence : group.sequences)
      if (sequence->state == SequenceState::resident) tokens += sequence->num_missing();
    all_short = all_short && tokens <= tokens_left_ && !has_parked(group);
    if (shortest_turn == nullptr || waiting_.key_comp()(shortest_turn, &group)) shortest_turn = &group;
    if (has_parked(group)) break;
  }
  num_in_turn_ = running_.size();
  was_short_ = false;
  if (shortest_turn == nullptr || !all_short) return;
  // One step in which those with more seats do not decode: that is a pause of a prompt's time for them, and
  // the newcomer's first token does not wait for hundreds of others. Not twice in a row.
  const auto last = std::ranges::find(running_, shortest_turn);
  const auto position = static_cast<std::size_t>(last - running_.begin()) + 1;
  if (decodes_from(position) < kFewDecodes) return;
  was_short_ = true;
  num_in_turn_ = position;
}

}  // namespace pagoda
