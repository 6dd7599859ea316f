// Counts and invariants of VllmScheduler, and the reason why a request waits: the same conditions as admit(),
// in words.
#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "scheduler/vllm_scheduler.h"

namespace pagoda {

Standing VllmScheduler::standing(const SequenceGroup& group) const {
  Standing out;
  const std::int64_t free = kv_.num_available_blocks();
  const auto place = [&group](const auto& queue) {
    return static_cast<std::int64_t>(std::ranges::find(queue, &group) - queue.begin());
  };
  const auto position = [&group](const auto& queue) {
    return static_cast<std::int64_t>(
        std::distance(queue.begin(), queue.find(const_cast<SequenceGroup*>(&group))));
  };
  if (group.state == GroupState::running) {
    out.position = place(running_);
    const auto parked = std::ranges::count_if(
        group.sequences, [](const auto& sequence) { return sequence->state == SequenceState::parked; });
    out.code = parked == 0 ? StandingCode::running : StandingCode::parked;
    out.reason = parked == 0 ? std::string("It is running.")
                             : concat("It is running; ", parked, " of its ", group.num_live(),
                                      " sequences wait for KV blocks.");
    return out;
  }
  if (group.state == GroupState::swapped) {
    std::vector<SequenceId> ids;
    for (const auto& sequence : group.sequences) {
      if (sequence->state != SequenceState::swapped) continue;
      ids.push_back(sequence->id);
      out.blocks_needed += geometry_.pages_to_go_on(sequence->num_missing());
    }
    out.position = position(swapped_);
    out.blocks_needed += swap_.swap_cost(ids).pages + watermark_blocks_;
    out.code = out.position > 0 ? StandingCode::swapped_turn : StandingCode::swapped_blocks;
    out.reason = out.position > 0
                     ? concat("It was preempted and swapped out; ", out.position, " others come back first.")
                     : concat("It was preempted and swapped out; coming back takes ", out.blocks_needed,
                              " KV blocks and ", free, " are free.");
    return out;
  }
  out.position = position(waiting_);
  if (takes_turns_) {
    const std::int64_t turn = order_->turn(group.account);
    out.position = std::ranges::count_if(waiting_, [&](const SequenceGroup* other) {
      const std::int64_t others = order_->turn(other->account);
      return others != turn ? others < turn : waiting_.key_comp()(other, &group);
    });
  }
  std::int64_t longest = 0;
  for (const auto& sequence : group.sequences) {
    if (!sequence->finished()) longest = std::max<std::int64_t>(longest, sequence->num_tokens());
  }
  out.blocks_needed = std::max(geometry_.pages_alone(longest), group.resume_blocks) + watermark_blocks_;
  std::int64_t num_seqs = 0;
  bool gang_returns = false;
  for (const SequenceGroup* other : running_) {
    num_seqs += other->num_reserved();
    gang_returns |= has_parked(*other);
  }
  const char* const start = group.num_preemptions > 0 ? "It was preempted and waits" : "It waits";
  if (!swapped_.empty()) {
    out.code = StandingCode::swapped_first;
    out.reason =
        concat(start, ": ", swapped_.size(), " swapped-out request(s) come back before anyone else.");
  } else if (gang_returns) {
    out.code = StandingCode::gang_first;
    out.reason = concat(start, ": a request that was preempted brings its sequences back first.");
  } else if (out.position > 0) {
    out.code = StandingCode::before;
    out.reason = concat(start, ": ", out.position, " request(s) are before it, and nobody is skipped.");
  } else if (num_seqs + group.num_reserved() > config_.max_num_seqs) {
    out.code = StandingCode::sequences;
    out.reason = concat(start, ": it runs up to ", group.num_reserved(), " sequence(s), and ", num_seqs,
                        " of max_num_seqs = ", config_.max_num_seqs, " are taken.");
  } else if (out.blocks_needed > free) {
    out.code = StandingCode::blocks;
    out.reason = concat(start, ": it needs ", out.blocks_needed, " KV blocks and ", free, " are free.");
  } else {
    out.code = StandingCode::budget;
    out.reason = concat(start, " for its turn under the step's budget of ", config_.max_num_batched_tokens,
                        " tokens.");
  }
  return out;
}

SchedulerCounts VllmScheduler::counts() const {
  SchedulerCounts out;
  out.waiting_groups = static_cast<std::int64_t>(waiting_.size());
  out.running_groups = static_cast<std::int64_t>(running_.size());
  for (const SequenceGroup* group : running_) out.running_sequences += group->num_live();
  out.swapped_groups = static_cast<std::int64_t>(swapped_.size());
  out.preemptions = num_preemptions_;
  out.preemptions_by_swap = num_swap_preemptions_;
  out.blocks_swapped_out = num_swapped_out_;
  out.blocks_swapped_in = num_swapped_in_;
  return out;
}

void VllmScheduler::check_invariants() const {
  kv_.inspection().check_invariants();
  CHECK(std::ranges::is_sorted(running_, waiting_.key_comp()));
  for (const SequenceGroup* group : waiting_) {
    CHECK(group->state == GroupState::waiting && group->num_live() > 0);
    for (const auto& sequence : group->sequences) {
      CHECK(sequence->state == SequenceState::parked || sequence->finished());
    }
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
  CHECK(batch_.swap_out.empty() || batch_.swap_in.empty());
  std::int32_t num_seqs = 0;
  for (const SequenceGroup* group : running_) {
    CHECK(group->state == GroupState::running);
    num_seqs += group->num_reserved();
    bool resident = false;
    for (const auto& sequence : group->sequences) {
      resident |= sequence->state == SequenceState::resident;
      CHECK(sequence->state != SequenceState::swapped);
      CHECK(sequence->num_computed_tokens <= sequence->num_tokens());
    }
    CHECK(resident);
  }
  CHECK(num_seqs <= config_.max_num_seqs);
  CHECK(batch_.num_tokens <= config_.max_num_batched_tokens);
}

}  // namespace pagoda
