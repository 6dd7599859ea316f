// Room of VllmScheduler: KV cache for those who run, and who has to give way for it.
#include <algorithm>
#include <ranges>

#include "base/check.h"
#include "scheduler/group_ops.h"
#include "scheduler/vllm_scheduler.h"

namespace pagoda {

// In small steps, where there is no room for chunks of the wanted size.
bool VllmScheduler::promise_rest(const SequenceGroup& group, const Sequence& sequence, std::int32_t chunk) {
  return kv_.promise(sequence.id, sequence.num_tokens(), chunk) ||
         (!runs_whole(group) && kv_.promise(sequence.id, sequence.num_tokens(), 1));
}

bool VllmScheduler::try_grow(const SequenceGroup& group, Sequence& sequence, std::int32_t& count) {
  // Room for all that is known, not only for this chunk: a prompt that was let in can finish.
  if (sequence.num_missing() > 1 && !promise_rest(group, sequence, count)) return false;
  const std::int32_t wanted = sequence.num_computed_tokens + count;
  const std::int32_t most = kv_.most_tokens(sequence.id, wanted);
  if (most <= sequence.num_computed_tokens || (most < wanted && runs_whole(group))) return false;
  if (!kv_.grow(sequence.id, most, batch_.block_copies)) return false;
  count = most - sequence.num_computed_tokens;
  return true;
}

VllmScheduler::Room VllmScheduler::make_space(std::size_t position, Sequence& sequence, std::int32_t& count) {
  SequenceGroup& group = *running_[position];
  while (!try_grow(group, sequence, count)) {
    SequenceGroup& latest = *running_.back();
    if (&latest != &group) {
      preempt(latest);
      continue;
    }
    if (position > 0) {
      preempt(group);
      return Room::group_preempted;
    }
    // The oldest group, alone: park the last sequence that is not in the batch yet.
    CHECK(!group.lockstep);
    Sequence* victim = nullptr;
    for (const auto& other : std::ranges::reverse_view(group.sequences)) {
      if (other->state == SequenceState::resident) {
        victim = other.get();
        break;
      }
    }
    release_kv(*victim, kv_);
    if (victim == &sequence) {
      CHECK(batch_.num_tokens > 0);  // validate() saw to it that one sequence always fits
      return Room::sequence_parked;
    }
  }
  return Room::ok;
}

// How many of the sequence's drafts can be computed too, without taking anything from those who run: nobody
// is preempted or put off for them.
std::int32_t VllmScheduler::make_room_for_drafts(std::size_t position, const Sequence& sequence,
                                                 std::int32_t taken) {
  // If accepted drafts are computed once more, they may be missing beside the last token.
  const std::int32_t most_missing = has_states_ ? std::max(1, sequence.num_output_tokens()) : 1;
  if (sequence.draft.empty() || taken < sequence.num_missing() || taken > most_missing) return 0;
  std::int32_t count = std::min(static_cast<std::int32_t>(sequence.draft.size()),
                                tokens_left_ - decodes_from(position) - prompts_from(position));
  std::int64_t reserve = watermark_blocks_;  // each running sequence may need one more
  for (const SequenceGroup* group : running_) reserve += std::ssize(group->sequences);
  for (; count > 0; --count) {
    const std::int64_t blocks = kv_.blocks_to_grow(sequence.id, sequence.num_tokens() + count);
    if (blocks > 0 && blocks + reserve > kv_.num_available_blocks()) continue;
    if (kv_.grow(sequence.id, sequence.num_tokens() + count, batch_.block_copies)) return count;
  }
  return 0;
}

void VllmScheduler::resume_siblings(std::size_t position) {
  SequenceGroup& group = *running_[position];
  for (const auto& entry : group.sequences) {
    if (entry->state != SequenceState::parked) continue;
    if (!resume_sibling(position, *entry)) return;
  }
}

// Shares with the sibling that has most in common, once that has computed it. False: not yet.
bool VllmScheduler::resume_sibling(std::size_t position, Sequence& sequence) {
  SequenceGroup& group = *running_[position];
  const Sequence* sibling = nullptr;
  std::int32_t shared = -1, num_resident = 0;
  for (const auto& other : group.sequences) {
    if (other->state != SequenceState::resident) continue;
    ++num_resident;
    // Samples part at the prompt's end; only beams have more to look for.
    if (sibling != nullptr && !group.lockstep) continue;
    const std::int32_t common =
        sharing_.shareable(other->id, std::min(common_prefix(*other, sequence), sequence.num_tokens() - 1));
    if (common <= shared) continue;
    shared = common;
    sibling = other.get();
  }
  CHECK(sibling != nullptr);
  if (sibling->num_computed_tokens < shared) {
    if (has_states_) sharing_.keep_shareable(sibling->id, shared);
    return false;
  }
  sequence.num_computed_tokens = sharing_.fork_prefix(sibling->id, sequence.id, shared);
  sequence.state = SequenceState::resident;
  // Beams need each other; samples can wait for room that lets all of them go on for a while.
  const std::int64_t margin = group.lockstep ? 0 : num_resident;
  std::int32_t one = 1;
  while (kv_.pages_to_promise(sequence.id, sequence.num_tokens(), 1) + margin > kv_.num_available_blocks() ||
         !kv_.promise(sequence.id, sequence.num_tokens(), 1) || !try_grow(group, sequence, one)) {
    if (!group.lockstep || running_.back() == &group) {
      release_kv(sequence, kv_);
      CHECK(!group.lockstep || position > 0);
      if (group.lockstep) preempt(group);
      return false;
    }
    preempt(*running_.back());
  }
  return true;
}

}  // namespace pagoda
