#include "scheduler/vllm/growth.h"

#include <algorithm>
#include <ranges>

#include "base/check.h"
#include "scheduler/group_ops.h"

namespace pagoda {

// Tries smaller chunks if a chunk of the requested size does not fit.
bool Growth::promise_rest(const SequenceGroup& group, const Sequence& sequence, std::int32_t chunk) {
  return records_.kv.promise(sequence.id, sequence.num_tokens(), records_.promised_chunk(group, chunk)) ||
         (!records_.runs_whole(group) && records_.kv.promise(sequence.id, sequence.num_tokens(), 1));
}

bool Growth::try_grow(const SequenceGroup& group, Sequence& sequence, std::int32_t& count) {
  KvManager& kv = records_.kv;
  // Reserve blocks for all known tokens, not only for this chunk, so that an admitted prompt can finish.
  if (sequence.num_missing() > 1 && !promise_rest(group, sequence, count)) return false;
  const std::int32_t wanted = sequence.num_computed_tokens + count;
  const std::int32_t most = kv.most_tokens(sequence.id, wanted);
  if (most <= sequence.num_computed_tokens || (most < wanted && records_.runs_whole(group))) return false;
  if (!kv.grow(sequence.id, most, records_.plan().batch().block_copies)) return false;
  count = most - sequence.num_computed_tokens;
  return true;
}

Growth::Room Growth::make_space(std::size_t position, Sequence& sequence, std::int32_t& count) {
  SequenceGroup& group = *records_.queues.running()[position];
  while (!try_grow(group, sequence, count)) {
    if (records_.plan().ahead()) {
      records_.plan().note_pause();
      return Room::pauses;
    }
    if (SequenceGroup* const victim = preemption_.victim_after(position)) {
      preemption_.preempt(*victim);
      continue;
    }
    if (position > 0) {
      preemption_.preempt(group);
      return Room::group_preempted;
    }
    // Only the oldest group is left: park its last sequence that is not in the batch yet.
    CHECK(!group.lockstep);
    Sequence* last = nullptr;
    for (const auto& other : std::ranges::reverse_view(group.sequences)) {
      if (other->state == SequenceState::resident) {
        last = other.get();
        break;
      }
    }
    CHECK(last != nullptr);
    release_kv(*last, records_.kv);
    if (last == &sequence) {
      CHECK(records_.plan().batch().num_tokens > 0);  // validate() ensures that one sequence always fits
      return Room::sequence_parked;
    }
  }
  return Room::ok;
}

void Growth::resume_siblings(std::size_t position) {
  SequenceGroup& group = *records_.queues.running()[position];
  for (const auto& entry : group.sequences) {
    if (entry->state != SequenceState::parked) continue;
    if (!resume_sibling(position, *entry)) return;
  }
}

const Sequence& Growth::nearest_sibling(const SequenceGroup& group, const Sequence& sequence,
                                        std::int32_t& shared, std::int32_t& num_resident) const {
  const Sequence* sibling = nullptr;
  shared = -1;
  num_resident = 0;
  for (const auto& other : group.sequences) {
    if (other->state != SequenceState::resident) continue;
    ++num_resident;
    // Samples diverge at the prompt's end; only beams may share more.
    if (sibling != nullptr && !group.lockstep) continue;
    const std::int32_t common = records_.kv.sharing().shareable(
        other->id, std::min(common_prefix(*other, sequence), sequence.num_tokens() - 1));
    if (common <= shared) continue;
    shared = common;
    sibling = other.get();
  }
  CHECK(sibling != nullptr);
  return *sibling;
}

// Shares blocks with the sibling that has the most tokens in common. Returns false if that one has not
// computed them yet.
bool Growth::resume_sibling(std::size_t position, Sequence& sequence) {
  KvManager& kv = records_.kv;
  SequenceGroup& group = *records_.queues.running()[position];
  std::int32_t shared = 0, num_resident = 0;
  const Sequence& sibling = nearest_sibling(group, sequence, shared, num_resident);
  if (sibling.num_computed_tokens < shared) {
    if (records_.has_states) kv.sharing().keep_shareable(sibling.id, shared);
    return false;
  }
  const auto share = [&](std::int32_t num_tokens) {
    sequence.num_computed_tokens = kv.sharing().fork_prefix(sibling.id, sequence.id, num_tokens);
    sequence.state = SequenceState::resident;
  };
  share(shared);
  // Beams run together; a sample waits until all samples have blocks to continue for a while.
  const std::int64_t margin = group.lockstep ? 0 : num_resident;
  std::int32_t one = 1;
  while (kv.pages_to_promise(sequence.id, sequence.num_tokens(), 1) + margin > kv.num_available_blocks() ||
         !kv.promise(sequence.id, sequence.num_tokens(), 1) || !try_grow(group, sequence, one)) {
    SequenceGroup* const victim = group.lockstep ? preemption_.victim_after(position) : nullptr;
    if (victim == nullptr) {
      const bool shares_state = records_.has_states && sequence.num_computed_tokens > 0;
      release_kv(sequence, kv);
      // A shared state takes a row beside the one into which it is copied, but admission counted only one
      // row.
      if (group.lockstep && position == 0 && shares_state) {
        share(0);
        continue;
      }
      CHECK(!group.lockstep || position > 0);
      if (group.lockstep) preemption_.preempt(group);
      return false;
    }
    preemption_.preempt(*victim);
  }
  return true;
}

}  // namespace pagoda
