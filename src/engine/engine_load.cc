// What EngineCore tells of its queue, for those who ask how long it is.
#include <algorithm>

#include "engine/engine_core.h"

namespace pagoda {
namespace {

QueuedWork left_of(const SequenceGroup& group, const TrafficMeans& means) {
  QueuedWork out;
  std::int32_t longest = 0, missing = 0;
  for (const auto& sequence : group.sequences) {
    if (sequence->finished()) continue;
    longest = std::max(longest, sequence->num_output_tokens());
    if (!sequence->decodes()) missing = std::max(missing, sequence->num_missing());
    out.kv_tokens += sequence->num_tokens();
  }
  out.prompt_tokens = missing;
  // Only of what has never been in the cache some may be found there.
  if (group.state == GroupState::waiting && group.num_preemptions == 0)
    out.prompt_tokens = std::max(out.prompt_tokens * means.computed_share, 1.0);
  if (group.state == GroupState::swapped) out.prompt_tokens = 1;
  out.output_tokens = expected_output(means.output_tokens, group.sampling().max_tokens, longest);
  out.num_sequences = group.num_reserved();
  out.kv_tokens += out.num_sequences * out.output_tokens / 2;
  out.rank = group.rank;
  return out;
}

}  // namespace

EngineLoad EngineCore::load() const {
  EngineLoad out;
  out.budget = budget_;
  out.paced = config_.target_itl_ms > 0;
  out.by_priority = config_.scheduling_policy == SchedulingPolicy::priority;
  out.time = clock_.now();
  out.step_tokens = config_.max_num_batched_tokens;
  out.max_num_seqs = config_.max_num_seqs;
  out.kv_tokens = static_cast<double>(limits_.kv_cache_tokens);
  out.means = means_;
  std::vector<const SequenceGroup*> waiting;
  for (const auto& [id, state] : requests_) {
    const SequenceGroup& group = state->group;
    if (group.state == GroupState::running)
      out.running.push_back(left_of(group, means_));
    else
      waiting.push_back(&group);
  }
  std::ranges::sort(waiting, [](const SequenceGroup* a, const SequenceGroup* b) {
    if (a->state != b->state) return a->state == GroupState::swapped;
    return a->rank != b->rank ? a->rank < b->rank : a->order < b->order;
  });
  for (const SequenceGroup* group : waiting) out.waiting.push_back(left_of(*group, means_));
  return out;
}

}  // namespace pagoda
