#include "scheduler/vllm/newcomers.h"

#include <algorithm>

#include "scheduler/group_ops.h"

namespace pagoda {
namespace {
// Up to this many decodes, adding a prompt lengthens the step little.
constexpr std::int32_t kFewDecodes = 16;
}  // namespace

// Makes room by preempting a group of a tenant with many. The preempted group is recomputed, not swapped:
// while any group is swapped out, no group is admitted. Returns false if no group can be preempted.
bool Newcomers::make_place(SequenceGroup& newcomer, std::int32_t num_seqs) {
  const bool fits = num_seqs + newcomer.num_reserved() <= records_.config.max_num_seqs &&
                    admission_.has_adapter_place(newcomer);
  if (fits && admission_.try_admit(newcomer)) return true;
  if (records_.queues.running().empty()) return false;
  if (records_.plan().ahead()) {
    records_.plan().note_pause();
    return false;
  }
  SequenceGroup& last = *records_.queues.running().back();
  if (!records_.order.may_displace(newcomer.account, last.account)) return false;
  const std::int32_t freed = last.num_reserved();
  preemption_.preempt(last, Preemption::WayBack::recompute);
  return make_place(newcomer, num_seqs - freed);
}

void Newcomers::admit() {
  GroupQueues& queues = records_.queues;
  if (queues.any_parked() || (records_.plan().ahead() && queues.running().empty())) return;
  const GroupQueues::Before before;
  const SequenceGroup* shortest_turn = nullptr;  // the last newcomer, if all have short prompts
  bool all_short = !was_short_;
  std::int32_t tokens = 0;
  while (!queues.waiting().empty()) {
    SequenceGroup& group = admission_.next_waiting();
    if (!records_.order.is_newcomer(group.account) || admission_.waits_for_step_in_flight(group)) break;
    if (arrivals_.begin(group)) continue;
    if (!make_place(group, queues.num_reserved())) break;
    queues.remove(group);
    admission_.begin_running(group);
    for (const auto& sequence : group.sequences)
      if (sequence->state == SequenceState::resident) tokens += sequence->num_missing();
    all_short = all_short && tokens <= records_.budget.left() && !has_parked(group);
    if (shortest_turn == nullptr || before(shortest_turn, &group)) shortest_turn = &group;
    if (has_parked(group)) break;
  }
  queues.set_num_in_turn(queues.running().size());
  was_short_ = false;
  if (shortest_turn == nullptr || !all_short) return;
  // Run one step in which groups with more seats do not decode. They pause for the duration of one prompt,
  // and the newcomer's first token does not wait for hundreds of decodes. Never twice in a row.
  const auto last = std::ranges::find(queues.running(), shortest_turn);
  const auto position = static_cast<std::size_t>(last - queues.running().begin()) + 1;
  if (records_.budget.decodes(queues.in_turn(position)) < kFewDecodes) return;
  was_short_ = true;
  queues.set_num_in_turn(position);
}

}  // namespace pagoda
