#include "scheduler/vllm/standing.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "scheduler/group_ops.h"
#include "scheduler/vllm/swapping.h"

namespace pagoda {
namespace {

std::int64_t place_in(const GroupQueues::Queue& queue, const SequenceGroup& group) {
  return std::distance(queue.begin(), queue.find(const_cast<SequenceGroup*>(&group)));
}

Standing of_running(const SequenceGroup& group, const SchedulerRecords& records) {
  const auto& running = records.queues.running();
  const auto parked = std::ranges::count_if(
      group.sequences, [](const auto& sequence) { return sequence->state == SequenceState::parked; });
  return {.position = std::ranges::find(running, &group) - running.begin(),
          .blocks_needed = 0,
          .reason = parked == 0 ? std::string("It is running.")
                                : concat("It is running; ", parked, " of its ", group.num_live(),
                                         " sequences wait for KV blocks."),
          .code = parked == 0 ? StandingCode::running : StandingCode::parked};
}

Standing of_swapped(const SequenceGroup& group, const SchedulerRecords& records) {
  const SwapIn back = swap_in_of(group, records.kv);
  Standing out;
  out.position = place_in(records.queues.swapped(), group);
  out.blocks_needed = back.blocks + back.growth + records.watermark_blocks;
  out.code = out.position > 0 ? StandingCode::swapped_turn : StandingCode::swapped_blocks;
  out.reason = out.position > 0
                   ? concat("It was preempted and swapped out; ", out.position, " others resume first.")
                   : concat("It was preempted and swapped out; resuming needs ", out.blocks_needed,
                            " KV blocks and ", records.kv.num_available_blocks(), " are free.");
  return out;
}

std::int64_t place_among_waiting(const SequenceGroup& group, const SchedulerRecords& records) {
  const GroupQueues::Queue& waiting = records.queues.waiting();
  if (!records.takes_turns) return place_in(waiting, group);
  const std::int64_t turn = records.order.turn(group.account);
  return std::ranges::count_if(waiting, [&](const SequenceGroup* other) {
    const std::int64_t others = records.order.turn(other->account);
    return others != turn ? others < turn : waiting.key_comp()(other, &group);
  });
}

Standing of_waiting(const SequenceGroup& group, const SchedulerRecords& records) {
  Standing out;
  out.position = place_among_waiting(group, records);
  std::int64_t longest = 0;
  for (const auto& sequence : group.sequences) {
    if (!sequence->finished()) longest = std::max<std::int64_t>(longest, sequence->num_tokens());
  }
  out.blocks_needed =
      std::max(records.kv.geometry().pages_alone(longest), group.resume_blocks) + records.watermark_blocks;
  const std::int64_t free = records.kv.num_available_blocks();
  const std::int32_t num_seqs = records.queues.num_reserved();
  const std::size_t num_swapped = records.queues.swapped().size();
  const char* const start = group.num_preemptions > 0 ? "It was preempted and waits" : "It waits";
  if (num_swapped > 0) {
    out.code = StandingCode::swapped_first;
    out.reason = concat(start, ": ", num_swapped, " swapped-out request(s) resume first.");
  } else if (records.queues.any_parked()) {
    out.code = StandingCode::gang_first;
    out.reason = concat(start, ": a preempted request resumes its sequences first.");
  } else if (out.position > 0) {
    out.code = StandingCode::before;
    out.reason = concat(start, ": ", out.position, " request(s) are ahead of it, and none is skipped.");
  } else if (num_seqs + group.num_reserved() > records.config.max_num_seqs) {
    out.code = StandingCode::sequences;
    out.reason = concat(start, ": it runs up to ", group.num_reserved(), " sequence(s), and ", num_seqs,
                        " of max_num_seqs = ", records.config.max_num_seqs, " are taken.");
  } else if (!may_bring_adapter(group, records.queues.running(), records.config)) {
    out.code = StandingCode::adapters;
    out.reason = adapters_taken(start, records.config);
  } else if (out.blocks_needed > free) {
    out.code = StandingCode::blocks;
    out.reason = concat(start, ": it needs ", out.blocks_needed, " KV blocks and ", free, " are free.");
  } else {
    out.code = StandingCode::budget;
    out.reason = concat(start, " for its turn under the step's budget of ",
                        records.config.max_num_batched_tokens, " tokens.");
  }
  return out;
}

}  // namespace

Standing standing_of(const SequenceGroup& group, const SchedulerRecords& records) {
  switch (group.state) {
    case GroupState::running:
      return of_running(group, records);
    case GroupState::swapped:
      return of_swapped(group, records);
    case GroupState::arriving:
      return {.position = place_in(records.queues.arriving(), group),
              .blocks_needed = 0,
              .reason = "The K/V of its prompt is on the way from the offloaded KV cache.",
              .code = StandingCode::arriving};
    default:
      return of_waiting(group, records);
  }
}

}  // namespace pagoda
