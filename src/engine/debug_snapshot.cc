// EngineCore::debug_snapshot: a copy of who holds what.
#include <algorithm>

#include "engine/engine_core.h"

namespace pagoda {
namespace {

SequenceSnapshot describe(const Sequence& sequence, const KvManager& kv) {
  SequenceSnapshot out;
  out.id = sequence.id;
  out.index = sequence.index;
  out.state = sequence.state;
  out.num_tokens = sequence.num_tokens();
  out.num_computed_tokens = sequence.num_computed_tokens;
  if (sequence.state == SequenceState::resident) {
    for (std::size_t group = 0; group < kv.geometry().groups().size(); ++group) {
      const KvTable table = kv.inspection().pages_of(sequence.id, group);
      out.blocks.insert(out.blocks.end(), table.blocks.begin(), table.blocks.end());
    }
    for (const BlockId block : out.blocks) out.ref_counts.push_back(kv.inspection().ref_count(block));
  }
  if (sequence.state == SequenceState::swapped)
    out.num_swapped_blocks = kv.swap().swap_cost(std::span(&sequence.id, 1)).pages;
  return out;
}

int rank(GroupState state) { return state == GroupState::running ? 0 : state == GroupState::swapped ? 1 : 2; }

}  // namespace

DebugSnapshot EngineCore::debug_snapshot() const {
  const KvManager& kv = *parts_.kv;
  DebugSnapshot out;
  out.block_size = kv.geometry().block_size();
  out.num_blocks = kv.num_blocks();
  out.num_free_blocks = kv.num_free_blocks();
  out.num_available_blocks = kv.num_available_blocks();
  out.groups.assign(kv.geometry().groups().begin(), kv.geometry().groups().end());
  out.num_swap_blocks = kv.swap().num_swap_blocks();
  out.num_free_swap_blocks = kv.swap().num_free_swap_blocks();
  out.usage = kv.inspection().usage();
  const SchedulerCounts counts = parts_.scheduler->counts();
  out.totals = totals_;
  out.totals.blocks_swapped_out = counts.blocks_swapped_out;
  out.totals.blocks_swapped_in = counts.blocks_swapped_in;
  out.totals.preemptions = counts.preemptions;
  out.totals.preemptions_by_swap = counts.preemptions_by_swap;
  out.totals.padded_tokens = counts.padded_tokens;
  for (const auto& [id, state] : requests_) {
    const SequenceGroup& group = state->group;
    Standing standing = parts_.scheduler->standing(group);
    RequestSnapshot request;
    request.id = id;
    request.state = group.state;
    request.position = standing.position;
    request.blocks_needed = standing.blocks_needed;
    request.blocks_free = out.num_available_blocks;
    request.reason = std::move(standing.reason);
    request.num_preemptions = group.num_preemptions;
    request.num_cached_tokens = std::max(0, group.num_cached_tokens);
    request.num_prompt_tokens = static_cast<std::int32_t>(group.request.prompt_token_ids.size());
    request.num_output_tokens = state->num_output_tokens;
    for (const auto& sequence : group.sequences) {
      if (!sequence->finished()) request.sequences.push_back(describe(*sequence, kv));
    }
    out.requests.push_back(std::move(request));
  }
  std::ranges::sort(out.requests, [](const RequestSnapshot& a, const RequestSnapshot& b) {
    return rank(a.state) != rank(b.state) ? rank(a.state) < rank(b.state) : a.position < b.position;
  });
  return out;
}

}  // namespace pagoda
