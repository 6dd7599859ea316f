// EngineCore::live_state: who holds what, lean enough to be taken ten times a second.
#include <algorithm>

#include "base/check.h"
#include "engine/engine_core.h"

namespace pagoda {
namespace {

int rank(GroupState state) { return state == GroupState::running ? 0 : state == GroupState::swapped ? 1 : 2; }

void append(LiveState& out, const Sequence& sequence, const KvManager& kv) {
  LiveSequence& live = out.sequences.emplace_back();
  live.id = sequence.id;
  live.index = sequence.index;
  live.state = sequence.state;
  live.num_tokens = sequence.num_tokens();
  live.num_computed_tokens = sequence.num_computed_tokens;
  live.cumulative_logprob = static_cast<float>(sequence.cumulative_logprob);
  live.first_block = static_cast<std::uint32_t>(out.blocks.size());
  if (sequence.state == SequenceState::resident) {
    for (std::size_t group = 0; group < kv.geometry().groups().size(); ++group) {
      const KvTable table = kv.inspection().pages_of(sequence.id, group);
      out.blocks.insert(out.blocks.end(), table.blocks.begin(), table.blocks.end());
    }
    if (const auto first = kv.inspection().first_virtual_block(sequence.id))
      live.first_virtual = index(*first);
  }
  live.num_blocks = static_cast<std::uint32_t>(out.blocks.size()) - live.first_block;
  if (sequence.state == SequenceState::swapped)
    live.num_swapped = static_cast<std::int32_t>(kv.swap().swap_cost(std::span(&sequence.id, 1)).pages);
}

}  // namespace

LiveState EngineCore::live_state() const {
  const KvManager& kv = *parts_.kv;
  LiveState out;
  out.manager = kv.inspection().name();
  out.block_size = kv.geometry().block_size();
  out.num_blocks = kv.num_blocks();
  out.num_swap_blocks = kv.swap().num_swap_blocks();
  out.max_num_seqs = config_.max_num_seqs;
  out.max_num_batched_tokens = config_.max_num_batched_tokens;
  out.max_model_len = config_.max_model_len;
  out.groups.assign(kv.geometry().groups().begin(), kv.geometry().groups().end());
  out.step = num_steps_;
  out.now = clock_.now();
  out.num_available_blocks = kv.num_available_blocks();
  out.num_free_swap_blocks = kv.swap().num_free_swap_blocks();
  std::vector<const RequestState*> states;
  states.reserve(requests_.size());
  for (const auto& [id, state] : requests_) states.push_back(state.get());
  std::ranges::sort(states, [](const RequestState* a, const RequestState* b) {
    const SequenceGroup &x = a->group, &y = b->group;
    if (x.state != y.state) return rank(x.state) < rank(y.state);
    return x.rank != y.rank ? x.rank < y.rank : x.order < y.order;
  });
  GroupState before = GroupState::finished;
  std::int64_t position = 0;
  for (const RequestState* state : states) {
    const SequenceGroup& group = state->group;
    position = group.state == before ? position + 1 : 0;
    before = group.state;
    LiveRequest live;
    live.id = group.request.id;
    live.state = group.state;
    live.beam = group.lockstep;
    live.position = position;
    // Only the first of a queue waits for anything but its turn; whoever runs has nothing to say.
    if (group.state != GroupState::running) {
      live.code = group.state == GroupState::swapped ? StandingCode::swapped_turn : StandingCode::before;
      if (position == 0) {
        const Standing standing = parts_.scheduler->standing(group);
        live.code = standing.code;
        live.blocks_needed = standing.blocks_needed;
      }
    }
    live.num_preemptions = group.num_preemptions;
    live.num_cached_tokens = std::max(0, group.num_cached_tokens);
    live.num_prompt_tokens = static_cast<std::int32_t>(group.request.prompt_token_ids.size());
    live.arrival = state->times.arrival;
    live.first_scheduled = state->times.first_scheduled;
    live.first_token = state->times.first_token;
    live.first_sequence = static_cast<std::uint32_t>(out.sequences.size());
    for (const auto& sequence : group.sequences) {
      if (sequence->finished()) continue;
      if (group.state == GroupState::running && sequence->state == SequenceState::parked)
        live.code = StandingCode::parked;
      append(out, *sequence, kv);
    }
    live.num_sequences = static_cast<std::uint32_t>(out.sequences.size()) - live.first_sequence;
    out.requests.push_back(live);
  }
  kv.inspection().append_cached(out.cached);
  for (const Prefix& prefix : prefixes_) {  // changed by this thread only
    LivePrefix& live = out.prefixes.emplace_back();
    live.name = prefix.info.name;
    for (std::size_t group = 0; group < kv.geometry().groups().size(); ++group) {
      const KvTable table = kv.inspection().pages_of(prefix.holder, group);
      live.blocks.insert(live.blocks.end(), table.blocks.begin(), table.blocks.end());
    }
  }
  if (live_ != nullptr) live_->take(out);
  return out;
}

void EngineCore::set_live(LiveFeed* live) {
  live_ = live;
  set_journal(live == nullptr ? nullptr : &live->journal());
}

void EngineCore::tell_ended(const RequestState& state, FinishReason reason, TimeNs now) {
  live_->on_ended({.id = state.group.request.id,
                   .reason = reason,
                   .arrival = state.times.arrival,
                   .first_scheduled = state.times.first_scheduled,
                   .first_token = state.times.first_token,
                   .ended = now,
                   .num_prompt_tokens = std::ssize(state.group.request.prompt_token_ids),
                   .num_cached_tokens = std::max(0, state.group.num_cached_tokens),
                   .num_output_tokens = state.num_output_tokens,
                   .num_preemptions = state.group.num_preemptions});
}

}  // namespace pagoda
