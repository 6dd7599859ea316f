#pragma once
// CostMeter: the cost of swapping a block and of recomputing a token in this process, measured from the times
// of past steps. Recent steps count more. Threads: none; owned by the engine.
#include "model_runner/model_runner.h"
#include "scheduler/preemption_policy.h"

namespace pagoda {

class CostMeter {
 public:
  explicit CostMeter(const PreemptionCosts& estimate) : costs_(estimate) {}
  const PreemptionCosts& costs() const { return costs_; }

  void on_step(const ScheduledBatch& batch, const StepResult& result, double seconds) {
    const std::size_t blocks = batch.swap_out.size() + batch.swap_in.size();
    if (blocks > 0 && result.swap_seconds > 0)
      blend(costs_.per_block_copied, result.swap_seconds / static_cast<double>(blocks));
    // Recomputation runs many tokens of a sequence at once, like prompts; a decode's token costs more.
    const bool like_recomputation =
        static_cast<std::size_t>(batch.num_tokens) >= kTokensPerSequence * batch.sequences.size();
    const double computing = seconds - result.swap_seconds;
    if (like_recomputation && computing > 0 && batch.num_tokens > 0)
      blend(costs_.per_token_recomputed, computing / batch.num_tokens);
  }

 private:
  static constexpr std::size_t kTokensPerSequence = 4;
  static constexpr double kWeight = 0.2;  // weight of the latest step
  static void blend(double& value, double latest) {
    value = value == 0 ? latest : value + kWeight * (latest - value);
  }
  PreemptionCosts costs_;
};

}  // namespace pagoda
