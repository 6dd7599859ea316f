#pragma once
// StepScatter: by how much the steps of a simulation are slower or faster than their cost, as those were that
// the cost model was calibrated with: each step draws a quantile, correlated with the last steps' (a machine
// that is slow in one step mostly is for a while). Not a model of why. The same seed draws the same. Without
// quantiles every factor is 1. Threads: none.
#include <cstdint>

#include "sim/cost_model.h"

namespace pagoda {

class StepScatter {
 public:
  // Borrows model.
  StepScatter(const CostModel& model, std::uint64_t seed) : model_(model), seed_(seed) {}

  // The next step's factor on its cost.
  double next(bool has_prompts);

 private:
  const CostModel& model_;
  const std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  double slow_ = 0;  // the part that lasts for a while, normally distributed
};

}  // namespace pagoda
