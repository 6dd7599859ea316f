#pragma once
// RequestEnds: how requests end before their time: aborted, past their deadline, or with the engine. abort()
// marks; what is marked ends at once between two turns of the engine, else with the turn. Memory that a step
// in flight uses stays until that step retires: the scheduler and the request table see to it. Threads: none;
// the engine thread's.
#include "engine/output_delivery.h"

namespace pagoda {

class RequestEnds {
 public:
  // Borrows all of them.
  RequestEnds(Scheduler& scheduler, const Clock& clock, RequestTable& requests, OutputDelivery& outputs,
              const StepObservers& observers);

  // Marks the request or the sequence, and ends it at once unless a turn is under way. Unknown or finished
  // ones are ignored.
  void abort(PendingAbort abort);
  // A turn plans, waits and applies; it is over: what was marked meanwhile ends.
  void turn_begins() { in_turn_ = true; }
  void turn_ends();
  // Ends what is past its deadline, and what has not been scheduled and would not be done in time at `cost`.
  void end_late(const CostEstimate& cost);
  void fail_all(const Status& error);

 private:
  void end_marked();
  void end(RequestState& state, Status error);
  void end_sequence(RequestState& state, std::int32_t index);

  Scheduler& scheduler_;
  const Clock& clock_;
  RequestTable& requests_;
  OutputDelivery& outputs_;
  const StepObservers& observers_;
  bool in_turn_ = false;
};

}  // namespace pagoda
