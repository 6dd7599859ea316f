#pragma once
// RequestEnds: ends requests early: on abort, past their deadline, or with the engine. abort() marks a
// request; marked requests end immediately between two turns of the engine, otherwise at the end of the turn.
// The scheduler and the request table keep memory that a step in flight uses until that step retires.
// Threads: none; the engine thread's.
#include "engine/output_delivery.h"

namespace pagoda {

class RequestEnds {
 public:
  // Borrows all arguments.
  RequestEnds(Scheduler& scheduler, const Clock& clock, RequestTable& requests, OutputDelivery& outputs,
              const StepObservers& observers);

  // Marks the request or the sequence, and ends it immediately unless a turn is in progress. Unknown or
  // finished ids are ignored.
  void abort(PendingAbort abort);
  // A turn plans, waits and applies. When it ends, everything marked meanwhile ends.
  void turn_begins() { in_turn_ = true; }
  void turn_ends();
  // Ends requests past their deadline, and unscheduled ones that could not finish in time at `cost`.
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
