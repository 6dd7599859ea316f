#include "engine/engine_load.h"

#include <algorithm>

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
  // Prefix cache hits can only be expected for a prompt that was never admitted.
  if ((group.state == GroupState::waiting || group.state == GroupState::arriving) &&
      group.num_preemptions == 0)
    out.prompt_tokens = std::max(out.prompt_tokens * means.computed_share, 1.0);
  if (group.state == GroupState::swapped) out.prompt_tokens = 1;
  out.output_tokens = expected_output(means.output_tokens, group.sampling().max_tokens, longest);
  out.num_sequences = group.num_reserved();
  out.kv_tokens += out.num_sequences * out.output_tokens / 2;
  out.rank = group.rank;
  return out;
}

}  // namespace

EngineLoad engine_load(const EngineConfig& config, const Scheduler& scheduler, const RequestTable& requests,
                       const StepBudget& budget, const TrafficMeans& traffic) {
  EngineLoad out;
  out.budget = budget;
  out.paced = config.target_itl_ms > 0;
  out.policy = config.scheduling_policy;
  out.step_tokens = config.max_num_batched_tokens;
  out.max_num_seqs = config.max_num_seqs;
  out.means = traffic;
  const bool turns = facts(out.policy).queue == QueueOrder::turns;
  for (TenantStanding& tenant : scheduler.tenants())
    out.tenants.push_back(
        {.name = std::move(tenant.tenant), .turn = tenant.turn, .num_running = tenant.num_running});
  std::vector<const SequenceGroup*> waiting;
  for (const auto& [id, state] : requests) {
    const SequenceGroup& group = state->group;
    if (group.state == GroupState::running)
      out.running.push_back(left_of(group, traffic));
    else
      waiting.push_back(&group);
  }
  std::ranges::sort(waiting, [](const SequenceGroup* a, const SequenceGroup* b) {
    const bool a_swapped = a->state == GroupState::swapped, b_swapped = b->state == GroupState::swapped;
    if (a_swapped != b_swapped) return a_swapped;
    return a->rank != b->rank ? a->rank < b->rank : a->order < b->order;
  });
  for (const SequenceGroup* group : waiting) {
    const OrderRecord record = order_record(group->request);
    QueuedWork work = left_of(*group, traffic);
    const TenantLoad* const tenant = turns ? out.find(record.tenant) : nullptr;
    if (tenant != nullptr) work.rank = tenant->turn;
    add_waiting(out, work, record);
  }
  out.num_arrived = requests.num_added();
  return out;
}

}  // namespace pagoda
