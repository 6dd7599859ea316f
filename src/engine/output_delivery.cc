#include "engine/output_delivery.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {
namespace {

const Status kDeadEnd = invalid_argument("The structured output has reached a dead end: no token may follow.")
                            .with_reason("constraint_dead_end");

std::int32_t num_cached(const SequenceGroup& group) { return std::max(0, group.num_cached_tokens); }

struct Ending {
  FinishReason reason = FinishReason::abort;
  std::int64_t longest = 0;
  bool at_dead_end = false;
};

Ending ending_of(const SequenceGroup& group) {
  Ending out;
  for (const auto& sequence : group.sequences) {
    out.longest = std::max<std::int64_t>(out.longest, sequence->num_output_tokens());
    if (sequence->finish_reason && *sequence->finish_reason != FinishReason::abort)
      out.reason = *sequence->finish_reason;
    out.at_dead_end |= sequence->finish_reason == FinishReason::error;
  }
  return out;
}

}  // namespace

OutputDelivery::OutputDelivery(const Scheduler& scheduler, const KvManager& kv, RequestTable& requests,
                               const StepObservers& observers)
    : scheduler_(scheduler), kv_(kv), requests_(requests), observers_(observers) {}

void OutputDelivery::note_tokens(RequestState& state, std::int64_t num_new, TimeNs now) {
  const SequenceGroup& group = state.group;
  RequestTimes& times = state.times;
  state.num_output_tokens += num_new;
  const bool first = times.first_token == 0;
  (first ? times.preempted_prefill : times.preempted_decode) += std::exchange(state.preempted_for, 0);
  const TimeNs since_last = now - std::exchange(times.last_token, now);
  if (first) {
    times.first_token = now;
    traffic_.on_begun(static_cast<double>(group.request.prompt_token_ids.size()), num_cached(group));
  }
  observers_.notify(&StepObserver::on_tokens,
                    TokenProgress{.request = group.request,
                                  .times = times,
                                  .num_tokens = num_new,
                                  .num_cached_tokens = num_cached(group),
                                  .since_last = first ? std::nullopt : std::optional(since_last)});
}

void OutputDelivery::publish(RequestState& state, std::span<Change> changes, TimeNs now) {
  SequenceGroup& group = state.group;
  const auto num_new = std::ranges::count(changes, Verb::append, &Change::verb);
  if (num_new > 0) note_tokens(state, num_new, now);
  std::vector<SequenceDelta> deltas;
  state.strategy->report(group, changes, deltas);
  // Each output has at most one token per sequence, however many the step produced.
  RequestOutput output;
  if (deltas.size() == 1) {
    output.deltas = std::move(deltas);
  } else {
    for (SequenceDelta& delta : deltas) {
      const bool again = std::ranges::any_of(
          output.deltas, [&](const SequenceDelta& other) { return other.index == delta.index; });
      if (again) send(state, std::exchange(output, {}));
      output.deltas.push_back(std::move(delta));
    }
  }
  if (group.finished())
    finish(state, std::move(output), now);
  else if (!output.deltas.empty())
    send(state, std::move(output));
}

void OutputDelivery::send(RequestState& state, RequestOutput output) {
  SequenceGroup& group = state.group;
  output.id = group.request.id;
  output.num_cached_tokens = num_cached(group);
  output.times = state.times;
  if (!state.sent_prompt_logprobs) output.prompt_logprobs = std::move(group.prompt_logprobs);
  // prompt_logprobs_complete() compares the list's size, so keep the size.
  if (!state.sent_prompt_logprobs) group.prompt_logprobs.resize(output.prompt_logprobs.size());
  state.sent_prompt_logprobs = true;
  deliver(state.sink, std::move(output));
}

void OutputDelivery::finish(RequestState& state, RequestOutput output, TimeNs now) {
  SequenceGroup& group = state.group;
  CHECK(group.finished());
  output.id = group.request.id;
  output.num_cached_tokens = num_cached(group);
  // A vector comes with the prompt's last token, and is the whole answer.
  if (group.request.work.pools()) state.times.first_token = state.times.last_token = now;
  output.times = state.times;
  if (!state.sent_prompt_logprobs && group.prompt_logprobs_complete())
    output.prompt_logprobs = std::move(group.prompt_logprobs);
  output.finished = true;
  const bool is_prefix = !state.prefix_name.empty();
  if (is_prefix && output.error.ok()) output.error = std::move(state.prefix_status);
  Ending ending = ending_of(group);
  if (ending.at_dead_end && output.error.ok()) output.error = kDeadEnd;
  if (!output.error.ok()) ending.reason = FinishReason::error;
  if (!is_prefix && (ending.reason == FinishReason::stop || ending.reason == FinishReason::length))
    traffic_.on_ended(static_cast<double>(ending.longest));
  observers_.notify(&StepObserver::on_ended, EndedRequest{.request = group.request,
                                                          .times = state.times,
                                                          .reason = ending.reason,
                                                          .ended = now,
                                                          .longest_output = ending.longest,
                                                          .num_output_tokens = state.num_output_tokens,
                                                          .num_cached_tokens = num_cached(group),
                                                          .num_preemptions = group.num_preemptions,
                                                          .is_prefix = is_prefix});
  std::shared_ptr<OutputSink> sink = std::move(state.sink);
  requests_.remove(state);  // before the client learns of the end
  deliver(std::move(sink), std::move(output));
}

void OutputDelivery::deliver(std::shared_ptr<OutputSink> sink, RequestOutput output) {
  if (scheduler_.answers_together())
    held_.push_back({std::move(sink), std::move(output)});
  else
    sink->on_output(std::move(output));
}

void OutputDelivery::settle(std::int32_t num_batched_tokens) {
  const SchedulerCounts counts = scheduler_.counts();
  if (!held_.empty() && counts.running_groups == 0)
    for (Held& held : std::exchange(held_, {})) held.sink->on_output(std::move(held.output));
  if (requests_.empty()) observers_.notify(&StepObserver::on_usage, kv_.inspection().usage());
  observers_.notify(&StepObserver::on_state,
                    EngineHoldings{.counts = counts, .kv = kv_, .num_batched_tokens = num_batched_tokens});
}

}  // namespace pagoda
