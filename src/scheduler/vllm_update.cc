// VllmScheduler between two steps: what has been computed, the verbs of decoding/, and groups that end.
#include <algorithm>

#include "base/check.h"
#include "scheduler/group_ops.h"
#include "scheduler/vllm_scheduler.h"

namespace pagoda {

void VllmScheduler::computed() {
  CHECK(in_flight_);
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    Sequence& sequence = *refs_[i].sequence;
    const std::int32_t count =
        static_cast<std::int32_t>(batch_.sequences[i].tokens.size()) - batch_.sequences[i].num_draft_tokens;
    // A token that is computed once more costs as a prompt's does.
    const bool decode = count == 1 && sequence.num_computed_tokens >= sequence.num_prompt_tokens;
    if (takes_turns_) order_->served(refs_[i].group->account, decode ? 0 : count, decode ? 1 : 0);
    sequence.num_computed_tokens += count;
    kv_.computed(sequence.id, sequence.tokens, sequence.num_computed_tokens);
  }
}

void VllmScheduler::update(std::span<Change> changes) {
  CHECK(in_flight_);
  in_flight_ = false;
  keep_accepted(changes);
  bool any_freed = false;
  for (Change& change : changes) {
    apply_change(change, kv_);
    any_freed |= change.verb == Verb::free;
  }
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    if (batch_.sequences[i].num_draft_tokens == 0) continue;
    Sequence& sequence = *refs_[i].sequence;
    sequence.draft.clear();
    if (sequence.state == SequenceState::resident) kv_.shrink(sequence.id, sequence.num_tokens());
  }
  if (any_freed) {
    for (const Change& change : changes) {
      if (change.verb == Verb::free && !change.group->finished()) settle(*change.group);
    }
  }
}

// The K/V of drafts that became tokens is right. Of a sequence that ends, too: others may find it in the
// prefix cache. A state has not moved by them: they are computed once more, with the next token.
void VllmScheduler::keep_accepted(std::span<const Change> changes) {
  if (has_states_) return;
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    if (batch_.sequences[i].num_draft_tokens == 0) continue;
    Sequence& sequence = *refs_[i].sequence;
    const auto appended = std::ranges::count_if(changes, [&](const Change& change) {
      return change.sequence == &sequence && change.verb == Verb::append;
    });
    if (appended < 2) continue;  // the first stands for no draft
    sequence.num_computed_tokens += static_cast<std::int32_t>(appended) - 1;
    if (takes_turns_) order_->served(refs_[i].group->account, 0, appended - 1);
    kv_.computed(sequence.id, sequence.drafted, sequence.num_computed_tokens);
  }
}

void VllmScheduler::settle(SequenceGroup& group) {
  if (group.num_live() == 0) {
    if (group.state == GroupState::waiting) waiting_.erase(&group);
    if (group.state == GroupState::swapped) swapped_.erase(&group);
    if (group.state == GroupState::running) std::erase(running_, &group);
    group.state = GroupState::finished;
    if (takes_turns_) order_->left(group.account);
    return;
  }
  // Those that had K/V may be gone while parked siblings remain: they start over from the queue.
  const auto none = [&group](SequenceState state) {
    return std::ranges::none_of(group.sequences, [=](const auto& s) { return s->state == state; });
  };
  if (group.state == GroupState::running && none(SequenceState::resident)) preempt(group);
  if (group.state == GroupState::swapped && none(SequenceState::swapped)) give_up_swapped(group);
}

void VllmScheduler::abort(SequenceGroup& group) {
  CHECK(!in_flight_ && !group.finished());
  for (const auto& sequence : group.sequences) {
    if (!sequence->finished()) finish_sequence(*sequence, FinishReason::abort, kv_);
  }
  settle(group);
}

void VllmScheduler::abort_sequence(SequenceGroup& group, Sequence& sequence) {
  CHECK(!in_flight_);
  if (sequence.finished()) return;
  finish_sequence(sequence, FinishReason::abort, kv_);
  settle(group);
}

}  // namespace pagoda
