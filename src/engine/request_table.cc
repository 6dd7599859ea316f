#include "engine/request_table.h"

#include "base/check.h"

namespace pagoda {

RequestState& RequestTable::add(std::unique_ptr<RequestState> state) {
  const Request& request = state->group.request;
  ++num_added_;
  num_constrained_ += state->constraints != nullptr ? 1 : 0;
  if (request.deadline != 0) deadlines_.emplace(request.deadline, request.id);
  const auto [place, is_new] = requests_.emplace(request.id, std::move(state));
  CHECK(is_new);
  return *place->second;
}

void RequestTable::remove(RequestState& state) {
  const Request& request = state.group.request;
  if (state.times.first_scheduled == 0) ++num_started_;  // it leaves the waiting queue this way
  ++num_finished_;
  num_preempted_ -= state.preempted_at != 0 ? 1 : 0;
  num_constrained_ -= state.constraints != nullptr ? 1 : 0;
  if (request.deadline != 0) deadlines_.erase({request.deadline, request.id});
  const auto it = requests_.find(request.id);
  CHECK(it != requests_.end() && it->second.get() == &state);
  if (state.group.last_step > last_retired_) ended_.push_back(std::move(it->second));
  requests_.erase(it);
}

RequestState* RequestTable::find(RequestId id) {
  const auto it = requests_.find(id);
  return it == requests_.end() ? nullptr : it->second.get();
}

RequestState& RequestTable::of(const SequenceGroup& group) {
  const auto it = requests_.find(group.request.id);
  CHECK(it != requests_.end());
  return *it->second;
}

void RequestTable::note_scheduled(std::int64_t step, std::span<const ScheduledRef> batch,
                                  std::span<SequenceGroup* const> preempted, TimeNs now) {
  for (const ScheduledRef& ref : batch) {
    ref.group->last_step = step;
    if (ref.sequence->num_output_tokens() > 0) continue;  // only a group's first step affects its times
    RequestState& state = of(*ref.group);
    if (state.times.first_scheduled != 0) continue;
    state.times.first_scheduled = now;
    ++num_started_;
  }
  for (const SequenceGroup* group : preempted) {
    RequestState& state = of(*group);
    if (state.times.first_scheduled == 0)
      continue;  // admitted and preempted within one schedule(): still waiting
    num_preempted_ += state.preempted_at == 0 ? 1 : 0;
    state.preempted_at = now;
  }
  if (num_preempted_ == 0) return;
  for (const ScheduledRef& ref : batch) {
    RequestState& state = of(*ref.group);
    if (state.preempted_at == 0) continue;
    state.preempted_for += now - state.preempted_at;
    state.preempted_at = 0;
    --num_preempted_;
  }
}

void RequestTable::note_retired(std::int64_t step) {
  last_retired_ = step;
  std::erase_if(ended_, [step](const auto& state) { return state->group.last_step <= step; });
}

}  // namespace pagoda
