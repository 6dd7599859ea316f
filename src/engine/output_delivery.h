#pragma once
// OutputDelivery: turns the changes of a step into outputs of requests, and ends requests. Under a scheduler
// that answers a batch together, it holds outputs back until nothing runs. Keeps traffic statistics for
// forecasts. Invariant: engine.conservation: a request gets exactly one finished output, its last. Threads:
// none; the engine thread's, on which sinks are called.
#include <memory>
#include <span>
#include <vector>

#include "engine/queue_forecast.h"
#include "engine/request_table.h"
#include "engine/step_observers.h"

namespace pagoda {

class OutputDelivery {
 public:
  // Borrows all arguments.
  OutputDelivery(const Scheduler& scheduler, const KvManager& kv, RequestTable& requests,
                 const StepObservers& observers);

  // Sends outputs for `changes`, which the scheduler has applied. May remove the request.
  void publish(RequestState& state, std::span<Change> changes, TimeNs now);
  // Sends the last output of a request whose group has finished. Removes the request.
  void finish(RequestState& state, RequestOutput output, TimeNs now);
  // Called after any change to what the engine holds: releases held outputs once nothing runs, and reports
  // the state to the observers. `num_batched_tokens`: tokens of the step that has just run, 0 between steps.
  void settle(std::int32_t num_batched_tokens = 0);

  const TrafficMeans& traffic() const { return traffic_; }
  bool holds_outputs() const { return !held_.empty(); }

 private:
  struct Held {
    std::shared_ptr<OutputSink> sink;
    RequestOutput output;
  };
  void note_tokens(RequestState& state, std::int64_t num_new, TimeNs now);
  void send(RequestState& state, RequestOutput output);
  void deliver(std::shared_ptr<OutputSink> sink, RequestOutput output);

  const Scheduler& scheduler_;
  const KvManager& kv_;
  RequestTable& requests_;
  const StepObservers& observers_;
  TrafficMeans traffic_;
  std::vector<Held> held_;  // in order
};

}  // namespace pagoda
