#include "engine/request_ends.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda {
namespace {

Status too_late(std::string message) {
  return Status(StatusCode::deadline_exceeded, std::move(message)).with_reason("deadline_exceeded");
}

SequenceDelta last_delta(const Sequence& sequence, FinishReason reason) {
  SequenceDelta delta;
  delta.index = sequence.index;
  delta.cumulative_logprob = sequence.cumulative_logprob;
  delta.finish_reason = reason;
  return delta;
}

}  // namespace

RequestEnds::RequestEnds(Scheduler& scheduler, const Clock& clock, RequestTable& requests,
                         OutputDelivery& outputs, const StepObservers& observers)
    : scheduler_(scheduler), clock_(clock), requests_(requests), outputs_(outputs), observers_(observers) {}

void RequestEnds::abort(PendingAbort abort) {
  requests_.mark_aborted(std::move(abort));
  if (!in_turn_) end_marked();
}

void RequestEnds::turn_ends() {
  in_turn_ = false;
  end_marked();
}

void RequestEnds::end_marked() {
  if (!requests_.has_aborts()) return;
  for (PendingAbort& abort : requests_.take_aborts()) {
    RequestState* const state = requests_.find(abort.id);
    if (state == nullptr) continue;
    if (abort.index)
      end_sequence(*state, *abort.index);
    else
      end(*state, std::move(abort.error));
  }
}

void RequestEnds::end(RequestState& state, Status error) {
  if (state.prefix_name.empty()) observers_.notify(&StepObserver::on_abort, state.group.request.id);
  RequestOutput output;
  output.error = std::move(error);
  for (const auto& sequence : state.group.sequences) {
    if (!sequence->finished() && sequence->index < state.group.sampling().n)
      output.deltas.push_back(last_delta(*sequence, FinishReason::abort));
  }
  scheduler_.abort(state.group);
  outputs_.finish(state, std::move(output), clock_.now());
  outputs_.settle();
}

void RequestEnds::end_sequence(RequestState& state, std::int32_t index) {
  SequenceGroup& group = state.group;
  const auto sequence = std::ranges::find_if(
      group.sequences, [&](const auto& s) { return s->index == index && !s->finished(); });
  if (sequence == group.sequences.end() || group.lockstep) return;
  observers_.notify(&StepObserver::on_abort_sequence, group.request.id, index);
  scheduler_.abort_sequence(group, **sequence);
  Change change{.verb = Verb::free, .group = &group, .sequence = sequence->get()};
  change.reason = FinishReason::abort;
  outputs_.publish(state, std::span(&change, 1), clock_.now());
  outputs_.settle();
}

void RequestEnds::fail_all(const Status& error) {
  CHECK(!in_turn_);
  const TimeNs now = clock_.now();
  while (!requests_.empty()) {
    RequestState& state = *requests_.begin()->second;
    RequestOutput output;
    for (const auto& sequence : state.group.sequences)
      if (!sequence->finished()) output.deltas.push_back(last_delta(*sequence, FinishReason::error));
    output.error = error;
    scheduler_.abort(state.group);
    outputs_.finish(state, std::move(output), now);
  }
  outputs_.settle();
}

// The scheduler reads no clock: to it, and in a run log, these are aborts between two steps.
void RequestEnds::end_late(const CostEstimate& cost) {
  if (requests_.deadlines().empty()) return;
  const TimeNs now = clock_.now();
  while (!requests_.deadlines().empty() && requests_.deadlines().begin()->first <= now)
    end(*requests_.find(requests_.deadlines().begin()->second), too_late("The request's time is up."));
  // With nothing running, costs may be wrong, and running one request corrects them.
  const SchedulerCounts counts = scheduler_.counts();
  if (counts.running_groups == 0 || counts.waiting_groups == 0 || !cost.known()) return;
  const double step_s = cost.seconds({.decodes = static_cast<double>(counts.running_sequences)});
  std::vector<RequestState*> hopeless;
  for (const auto& [deadline, id] : requests_.deadlines()) {
    RequestState& state = *requests_.find(id);
    const Request& request = state.group.request;
    if (state.times.first_scheduled != 0) continue;
    const double allowed_s = to_seconds(deadline - state.times.arrival);
    if (expected_service(cost, outputs_.traffic(), request, allowed_s, step_s) > to_seconds(deadline - now))
      hopeless.push_back(&state);
  }
  for (RequestState* state : hopeless)
    end(*state, too_late("The request waited until it could not be served within its deadline."));
}

}  // namespace pagoda
