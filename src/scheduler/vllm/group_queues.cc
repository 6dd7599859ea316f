#include "scheduler/vllm/group_queues.h"

#include "base/check.h"
#include "scheduler/group_ops.h"

namespace pagoda {

void GroupQueues::insert_waiting(SequenceGroup& group) {
  group.state = GroupState::waiting;
  CHECK(waiting_.insert(&group).second);
}

void GroupQueues::insert_arriving(SequenceGroup& group) {
  group.state = GroupState::arriving;
  CHECK(arriving_.insert(&group).second);
}

void GroupQueues::insert_swapped(SequenceGroup& group) {
  group.state = GroupState::swapped;
  CHECK(swapped_.insert(&group).second);
}

std::size_t GroupQueues::insert_running(SequenceGroup& group) {
  group.state = GroupState::running;
  const auto place = std::ranges::upper_bound(running_, &group, Before{});
  return static_cast<std::size_t>(running_.insert(place, &group) - running_.begin());
}

void GroupQueues::remove(SequenceGroup& group) {
  switch (group.state) {
    case GroupState::waiting:
      CHECK(waiting_.erase(&group) == 1);
      return;
    case GroupState::arriving:
      CHECK(arriving_.erase(&group) == 1);
      return;
    case GroupState::swapped:
      CHECK(swapped_.erase(&group) == 1);
      return;
    case GroupState::running:
      CHECK(std::erase(running_, &group) == 1);
      return;
    case GroupState::finished:
      CHECK(!"a finished group is in no queue");
  }
}

std::int32_t GroupQueues::num_reserved() const {
  std::int32_t count = 0;
  for (const SequenceGroup* group : running_) count += group->num_reserved();
  for (const SequenceGroup* group : arriving_) count += group->num_reserved();
  return count;
}

bool GroupQueues::any_parked() const {
  return std::ranges::any_of(running_, [](const SequenceGroup* group) { return has_parked(*group); });
}

void GroupQueues::check_invariants() const {
  CHECK(std::ranges::is_sorted(running_, Before{}));
  for (const SequenceGroup* group : waiting_) {
    CHECK(group->state == GroupState::waiting && group->num_live() > 0);
    for (const auto& sequence : group->sequences)
      CHECK(sequence->state == SequenceState::parked || sequence->finished());
  }
  for (const SequenceGroup* group : arriving_) {
    CHECK(group->state == GroupState::arriving && group->num_live() > 0);
    CHECK(std::ranges::count(group->sequences, SequenceState::arriving, &Sequence::state) == 1);
    for (const auto& sequence : group->sequences)
      CHECK(sequence->state == SequenceState::arriving || sequence->state == SequenceState::parked ||
            sequence->finished());
  }
  for (const SequenceGroup* group : swapped_) {
    CHECK(group->state == GroupState::swapped && group->num_live() > 0);
    bool swapped = false;
    for (const auto& sequence : group->sequences) {
      CHECK(sequence->state != SequenceState::resident);
      swapped |= sequence->state == SequenceState::swapped;
    }
    CHECK(swapped);
  }
  for (const SequenceGroup* group : running_) {
    CHECK(group->state == GroupState::running);
    bool resident = false;
    for (const auto& sequence : group->sequences) {
      resident |= sequence->state == SequenceState::resident;
      CHECK(sequence->state != SequenceState::swapped);
      CHECK(sequence->num_computed_tokens <= sequence->num_tokens());
    }
    CHECK(resident);
  }
}

}  // namespace pagoda
