#include "scheduler/vllm/token_budget.h"

#include "scheduler/group_ops.h"

namespace pagoda {

std::int32_t TokenBudget::decodes(std::span<SequenceGroup* const> groups) const {
  std::int32_t count = 0;
  for (const SequenceGroup* group : groups) {
    if (count >= left_) break;
    if (group->lockstep && !lockstep_ready(*group)) continue;
    for (const auto& sequence : group->sequences) count += sequence->decodes() ? 1 : 0;
  }
  return count;
}

std::int32_t TokenBudget::for_prompt(const GroupQueues& queues, std::size_t position, Prompt prompt) const {
  if (position == 0 && prompt == Prompt::whole) return left_;
  return std::max(left_ - decodes(queues.in_turn(position)), position == 0 ? std::min(1, left_) : 0);
}

std::int32_t TokenBudget::for_drafts(const GroupQueues& queues, std::size_t position) const {
  return left_ - decodes(queues.in_turn(position)) - prompts(queues, position);
}

// Tokens other than decodes that could still be taken in this step: by this group, later ones, and waiting
// ones. An estimate, since waiting groups may find some tokens in the prefix cache; stops counting soon after
// left().
std::int32_t TokenBudget::prompts(const GroupQueues& queues, std::size_t position) const {
  std::int32_t count = 0;
  for (const SequenceGroup* group : queues.in_turn(position)) {
    if (count >= left_) break;
    for (const auto& sequence : group->sequences) {
      if (sequence->state == SequenceState::resident && sequence->num_missing() > 1)
        count += sequence->num_missing();
    }
  }
  if (queue_blocked_) return count;
  for (const SequenceGroup* group : queues.swapped().empty() ? queues.waiting() : queues.swapped()) {
    if (count >= left_) break;
    const auto leader = std::ranges::find_if(group->sequences, [](const auto& s) { return !s->finished(); });
    count += std::max((*leader)->num_missing(), group->num_live());
  }
  return count;
}

}  // namespace pagoda
