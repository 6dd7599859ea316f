#pragma once
// OutputDelivery: turns what a step changed into the outputs of requests, and ends requests. Under a
// scheduler that answers a batch together it holds outputs back until nothing runs. Learns what traffic is
// like, for forecasts. Invariants: engine.conservation: a request gets exactly one finished output, its last.
// Threads: none; the engine thread's, on which sinks are called.
#include <memory>
#include <span>
#include <vector>

#include "engine/queue_forecast.h"
#include "engine/request_table.h"
#include "engine/step_observers.h"

namespace pagoda {

class OutputDelivery {
 public:
  // Borrows all of them.
  OutputDelivery(const Scheduler& scheduler, const KvManager& kv, RequestTable& requests,
                 const StepObservers& observers);

  // Sends outputs for `changes`, which the scheduler has carried out. The request may be gone afterwards.
  void publish(RequestState& state, std::span<Change> changes, TimeNs now);
  // Sends the last output; its group has finished. The request is gone afterwards.
  void finish(RequestState& state, RequestOutput output, TimeNs now);
  // After anything that changes what the engine holds: releases outputs held back once nothing runs, and
  // reports the state to the observers. `num_batched_tokens`: of the step that has just run, 0 between steps.
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
