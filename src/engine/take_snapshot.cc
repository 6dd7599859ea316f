#include "engine/take_snapshot.h"

#include <algorithm>

namespace pagoda {
namespace {

int rank(GroupState state) {
  switch (state) {
    case GroupState::running:
      return 0;
    case GroupState::swapped:
      return 1;
    case GroupState::arriving:
      return 2;
    case GroupState::waiting:
    case GroupState::finished:
      break;
  }
  return 3;
}

void append_blocks(std::vector<BlockId>& out, const KvManager& kv, SequenceId id) {
  for (std::size_t group = 0; group < kv.geometry().groups().size(); ++group) {
    const KvTable table = kv.inspection().pages_of(id, group);
    out.insert(out.end(), table.blocks.begin(), table.blocks.end());
  }
}

void append(EngineSnapshot& out, const Sequence& sequence, const KvManager& kv) {
  SequenceSnapshot& shown = out.sequences.emplace_back();
  shown.id = sequence.id;
  shown.index = sequence.index;
  shown.state = sequence.state;
  shown.num_tokens = sequence.num_tokens();
  shown.num_computed_tokens = sequence.num_computed_tokens;
  shown.cumulative_logprob = static_cast<float>(sequence.cumulative_logprob);
  shown.first_block = static_cast<std::uint32_t>(out.blocks.size());
  if (sequence.state == SequenceState::resident) {
    append_blocks(out.blocks, kv, sequence.id);
    if (const auto first = kv.inspection().first_virtual_block(sequence.id))
      shown.first_virtual = index(*first);
  }
  shown.num_blocks = static_cast<std::uint32_t>(out.blocks.size()) - shown.first_block;
  if (sequence.state == SequenceState::swapped)
    shown.num_swapped = static_cast<std::int32_t>(kv.swap().swap_cost(std::span(&sequence.id, 1)).pages);
}

// For full detail: to explain a request, the scheduler walks its queue.
void set_standing(RequestSnapshot& shown, Standing standing) {
  shown.position = standing.position;
  shown.code = standing.code;
  shown.blocks_needed = standing.blocks_needed;
  shown.reason = std::move(standing.reason);
}

// For lean detail, without that walk: only the first request of a queue waits for anything but its turn.
void set_lean_standing(RequestSnapshot& shown, const SequenceGroup& group, const Scheduler& scheduler) {
  if (group.state == GroupState::running) {
    const bool parked = std::ranges::any_of(
        group.sequences, [](const auto& sequence) { return sequence->state == SequenceState::parked; });
    shown.code = parked ? StandingCode::parked : StandingCode::running;
  } else if (group.state == GroupState::arriving) {
    shown.code = StandingCode::arriving;
  } else if (shown.position == 0) {
    const Standing standing = scheduler.standing(group);
    shown.code = standing.code;
    shown.blocks_needed = standing.blocks_needed;
  } else {
    shown.code = group.state == GroupState::swapped ? StandingCode::swapped_turn : StandingCode::before;
  }
}

RequestSnapshot describe(const RequestState& state) {
  const SequenceGroup& group = state.group;
  RequestSnapshot out;
  out.id = group.request.id;
  out.state = group.state;
  out.beam = group.lockstep;
  out.num_preemptions = group.num_preemptions;
  out.num_cached_tokens = std::max(0, group.num_cached_tokens);
  out.num_prompt_tokens = static_cast<std::int32_t>(group.request.prompt_token_ids.size());
  out.num_output_tokens = state.num_output_tokens;
  out.arrival = state.times.arrival;
  out.first_scheduled = state.times.first_scheduled;
  out.first_token = state.times.first_token;
  return out;
}

void append_requests(EngineSnapshot& out, const EngineParts& parts, const RequestTable& requests,
                     SnapshotDetail detail) {
  std::vector<const RequestState*> states;
  states.reserve(static_cast<std::size_t>(requests.size()));
  for (const auto& [id, state] : requests) states.push_back(state.get());
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
    RequestSnapshot shown = describe(*state);
    shown.position = position;
    if (detail == SnapshotDetail::full) {
      set_standing(shown, parts.scheduler->standing(group));
      if (group.request.adapter != nullptr) shown.adapter = group.request.adapter->name;
    } else {
      set_lean_standing(shown, group, *parts.scheduler);
    }
    shown.first_sequence = static_cast<std::uint32_t>(out.sequences.size());
    for (const auto& sequence : group.sequences)
      if (!sequence->finished()) append(out, *sequence, *parts.kv);
    shown.num_sequences = static_cast<std::uint32_t>(out.sequences.size()) - shown.first_sequence;
    out.requests.push_back(std::move(shown));
  }
  if (detail == SnapshotDetail::lean) return;
  // Under an order with turns, the scheduler's positions are not by rank.
  std::ranges::sort(out.requests, [](const RequestSnapshot& a, const RequestSnapshot& b) {
    return rank(a.state) != rank(b.state) ? rank(a.state) < rank(b.state) : a.position < b.position;
  });
  for (const BlockId block : out.blocks) out.ref_counts.push_back(parts.kv->inspection().ref_count(block));
}

void add_counts(EngineTotals& totals, const SchedulerCounts& counts, const PrefixCacheStats& cache) {
  totals.blocks_swapped_out = counts.blocks_swapped_out;
  totals.blocks_swapped_in = counts.blocks_swapped_in;
  totals.preemptions = counts.preemptions;
  totals.preemptions_by_swap = counts.preemptions_by_swap;
  totals.padded_tokens = counts.padded_tokens;
  totals.prefix_cache_queries = cache.queries;
  totals.prefix_cache_hits = cache.hits;
}

}  // namespace

EngineSnapshot take_snapshot(const EngineConfig& config, const EngineParts& parts,
                             const RequestTable& requests, const SharedPrefixes& prefixes,
                             const EngineTotals& totals, SnapshotDetail detail) {
  const KvManager& kv = *parts.kv;
  EngineSnapshot out;
  out.manager = kv.inspection().name();
  out.block_size = kv.geometry().block_size();
  out.num_blocks = kv.num_blocks();
  out.num_swap_blocks = kv.swap().num_swap_blocks();
  out.max_num_seqs = config.max_num_seqs;
  out.max_num_batched_tokens = config.max_num_batched_tokens;
  out.max_model_len = config.max_model_len;
  out.groups.assign(kv.geometry().groups().begin(), kv.geometry().groups().end());
  out.num_free_blocks = kv.num_free_blocks();
  out.num_available_blocks = kv.num_available_blocks();
  out.num_free_swap_blocks = kv.swap().num_free_swap_blocks();
  out.usage = kv.inspection().usage();
  out.totals = totals;
  add_counts(out.totals, parts.scheduler->counts(), kv.inspection().prefix_cache_stats());
  append_requests(out, parts, requests, detail);
  kv.inspection().append_cached(out.cached);
  for (const SharedPrefixes::Prefix& prefix : prefixes.pinned()) {
    PrefixSnapshot& shown = out.prefixes.emplace_back();
    shown.name = prefix.info.name;
    append_blocks(shown.blocks, kv, prefix.holder);
  }
  return out;
}

}  // namespace pagoda
