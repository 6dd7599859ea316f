#pragma once
// EngineSleep: whether the engine computes, and which memory it has released while asleep. See
// EngineClient::sleep().
//
//     awake --sleep(level)--> asleep --wake_up(everything)--> awake;   wake_up(weights) alone: still asleep
//
// Threads: none; the engine thread's.
#include "decoding/draft_proposer.h"
#include "engine/client.h"
#include "engine/step_observers.h"
#include "model_runner/model_runner.h"

namespace pagoda {

class EngineSleep {
 public:
  EngineSleep(KvManager& kv, ModelRunner& runner, const StepObservers& observers)
      : kv_(kv), runner_(runner), observers_(observers) {}

  bool asleep() const { return level_ >= 0; }
  // From level 1 on, the prefix cache must have been cleared: unneeded K/V is dropped. `proposer`, which may
  // be null, releases its memory along with the runner.
  Status sleep(std::int32_t level, DraftProposer* proposer = nullptr);
  // Fails if the weights cannot be loaded again; the engine then stays asleep, and the call may be repeated.
  Status wake_up(const WakeOrder& order, DraftProposer* proposer = nullptr);

 private:
  KvManager& kv_;
  ModelRunner& runner_;
  const StepObservers& observers_;
  std::int32_t level_ = -1;  // -1: awake
  WakeOrder sleeping_;       // parts still to be woken
};

}  // namespace pagoda
