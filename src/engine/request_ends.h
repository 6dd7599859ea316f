#pragma once
// RequestEnds: how requests end before their time: aborted, past their deadline, or with the engine. abort()
// marks; what is marked is freed at once between two steps, else when the step in flight, whose batch points
// into it, retires. Threads: none; the engine thread's.
#include "engine/output_delivery.h"

namespace pagoda {

class RequestEnds {
 public:
  // Borrows all of them.
  RequestEnds(Scheduler& scheduler, const Clock& clock, RequestTable& requests, OutputDelivery& outputs,
              const StepObservers& observers);

  // Marks the request or the sequence, and ends it at once unless a step is in flight. Unknown or finished
  // ones are ignored.
  void abort(PendingAbort abort);
  // A batch that points into requests has been given out; it retired: what was marked meanwhile ends.
  void step_begins();
  void step_retired();
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
  std::int32_t num_in_flight_ = 0;  // steps
};

}  // namespace pagoda
