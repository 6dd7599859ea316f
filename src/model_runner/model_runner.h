#pragma once
// ModelRunner: carries out a ScheduledBatch: block copies, forward pass, sampling. The engine sees only
// this interface; the simulator implements it with a cost model.
// Threads: the engine thread only.
#include "request/step_result.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual StepResult run(const ScheduledBatch& batch) = 0;
};

}  // namespace pagoda
