#pragma once
// StepScatter: random factors by which simulated steps are slower or faster than their predicted cost,
// distributed like the steps of the calibration. Each step draws a quantile that is correlated with the
// previous ones: a slow machine usually stays slow for a while. The causes are not modelled. Deterministic
// for a seed. Without quantiles every factor is 1. Threads: none.
#include <cstdint>

#include "sim/cost_model.h"

namespace pagoda {

class StepScatter {
 public:
  // Borrows `model`.
  StepScatter(const CostModel& model, std::uint64_t seed) : model_(model), seed_(seed) {}

  // Returns the factor for the next step.
  double next(bool has_prompts);

 private:
  const CostModel& model_;
  const std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  double slow_ = 0;  // the persistent component, normally distributed
};

}  // namespace pagoda
