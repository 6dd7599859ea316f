// How requests end before their time: aborted, late, at a constraint's dead end, or with the engine.
#include <algorithm>

#include "base/check.h"
#include "engine/engine_core.h"

namespace pagoda {
namespace {
Status too_late(std::string message) {
  return Status(StatusCode::deadline_exceeded, std::move(message)).with_reason("deadline_exceeded");
}
}  // namespace

void EngineCore::abort(RequestId id) {
  const auto it = requests_.find(id);
  if (it != requests_.end()) abort(*it->second, ok_status());
}

void EngineCore::abort(RequestState& state, Status error) {
  if (observer_ != nullptr && state.prefix_name.empty()) observer_->on_abort(state.group.request.id);
  RequestOutput output;
  output.error = std::move(error);
  for (const auto& sequence : state.group.sequences) {
    if (sequence->finished() || sequence->index >= state.group.sampling().n) continue;
    SequenceDelta delta;
    delta.index = sequence->index;
    delta.cumulative_logprob = sequence->cumulative_logprob;
    delta.finish_reason = FinishReason::abort;
    output.deltas.push_back(std::move(delta));
  }
  parts_.scheduler->abort(state.group);
  send_last(state, std::move(output), clock_.now());
  update_gauges(0);
}

void EngineCore::abort_sequence(RequestId id, std::int32_t index) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  RequestState& state = *it->second;
  SequenceGroup& group = state.group;
  const auto sequence = std::ranges::find_if(
      group.sequences, [&](const auto& s) { return s->index == index && !s->finished(); });
  if (sequence == group.sequences.end() || group.lockstep) return;
  if (observer_ != nullptr) observer_->on_abort_sequence(id, index);
  parts_.scheduler->abort_sequence(group, **sequence);
  changes_.clear();
  Change change{.verb = Verb::free, .group = &group, .sequence = sequence->get()};
  change.reason = FinishReason::abort;
  changes_.push_back(std::move(change));
  publish(state, std::span(changes_), clock_.now());
  update_gauges(0);
}

void EngineCore::fail_all(const Status& error) {
  const TimeNs now = clock_.now();
  while (!requests_.empty()) {
    RequestState& state = *requests_.begin()->second;
    RequestOutput output;
    for (const auto& sequence : state.group.sequences) {
      if (sequence->finished()) continue;
      SequenceDelta delta;
      delta.index = sequence->index;
      delta.cumulative_logprob = sequence->cumulative_logprob;
      delta.finish_reason = FinishReason::error;
      output.deltas.push_back(std::move(delta));
    }
    output.error = error;
    parts_.scheduler->abort(state.group);
    send_last(state, std::move(output), now);
  }
  update_gauges(0);
}

// The scheduler reads no clock: to it, and to the log of a run, this is an abort between two steps.
void EngineCore::end_late() {
  const TimeNs now = clock_.now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now)
    abort(*requests_.at(deadlines_.begin()->second), too_late("The request's time is up."));
  // Nor is anything begun that would not be done. Where nothing runs, costs may be wrong, and one will tell.
  const SchedulerCounts counts = parts_.scheduler->counts();
  if (counts.running_groups == 0 || counts.waiting_groups == 0 || !budget_.cost().known()) return;
  const double step_s = budget_.cost().seconds({.decodes = static_cast<double>(counts.running_sequences)});
  std::vector<RequestState*> hopeless;
  for (const auto& [deadline, id] : deadlines_) {
    RequestState& state = *requests_.at(id);
    const Request& request = state.group.request;
    if (state.times.first_scheduled != 0) continue;
    const double allowed_s = to_seconds(deadline - state.times.arrival);
    if (expected_service(budget_.cost(), means_, request, allowed_s, step_s) > to_seconds(deadline - now))
      hopeless.push_back(&state);
  }
  for (RequestState* state : hopeless)
    abort(*state, too_late("The request waited until it could not be served within its deadline."));
}

// What a constraint leaves no way to go on with ends as a whole: its other sequences would meet the same
// rules.
bool EngineCore::end_at_dead_end(SequenceGroup& group) {
  if (group.lockstep || std::ranges::none_of(sampled_, [](const auto& s) { return s.result->dead_end; }))
    return false;  // beams go on without the one that cannot
  for (const auto& sequence : group.sequences) {
    if (sequence->finished()) continue;
    Change change{.verb = Verb::free, .group = &group, .sequence = sequence.get()};
    change.reason = FinishReason::error;
    changes_.push_back(std::move(change));
  }
  return true;
}

}  // namespace pagoda
