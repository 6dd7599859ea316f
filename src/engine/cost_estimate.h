#pragma once
// CostEstimate: the duration of a step, learned from past steps:
//
//     seconds = row * (kStepRows + decodes) + token * tokens of prompts + attended * positions they attend to
//
// An extended Kalman filter on the logarithms of the three costs: a step that took e times as long as
// expected moves each cost by a power of e, as far as the cost had a part in the step and is uncertain. A
// cost that was learned wrong is corrected by steps that mix it with others, and none becomes zero or less.
// It is not a model of the machine: attention of decodes, for example, is part of the cost of a row, which
// adapts as it changes. Reads no clock and no random numbers: same steps, same costs. Threads: none; owned
// by StepBudget.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "decoding/draft_policy.h"

namespace pagoda {

// The work of one step.
struct StepWork {
  double decodes = 0;
  double tokens = 0;    // prompts' tokens
  double attended = 0;  // thousands of positions before each of those tokens, summed
};

class CostEstimate {
 public:
  bool known() const { return known_; }
  // Seconds; before anything is known, 0.
  double seconds(const StepWork& work) const {
    double sum = 0;
    for (const double part : parts(work)) sum += part;
    return sum;
  }

  // Tokens of one prompt from `position` on that take so long beside the step's other work. Known only.
  double prompt_tokens(double seconds, double position) const {
    const double first = cost_[1] + cost_[2] * position / 1000, more = cost_[2] / 1000;
    return 2 * seconds / (first + std::sqrt(first * first + 2 * more * seconds));
  }

  // A step took `seconds` > 0.
  void learn(const StepWork& work, double seconds) {
    if (!known_) {
      const double each = seconds / (kStepRows + work.decodes + work.tokens + kAttended * work.attended);
      cost_ = {each, each, kAttended * each};
    }
    known_ = true;
    const double expected = this->seconds(work);
    Vector part = parts(work), with_step = {};
    for (double& p : part) p /= expected;
    grow_uncertain();
    double of_step = kNoise * kNoise;
    for (std::size_t i = 0; i < kCosts; ++i) {
      for (std::size_t j = 0; j < kCosts; ++j) with_step[i] += covariance_[i][j] * part[j];
      of_step += part[i] * with_step[i];
    }
    // A step that something else held up says no more than one that took twice as long.
    const double error = std::clamp(std::log(seconds / expected), -kMaxError, kMaxError);
    for (std::size_t i = 0; i < kCosts; ++i) {
      cost_[i] *= std::exp(with_step[i] / of_step * error);
      for (std::size_t j = 0; j < kCosts; ++j) covariance_[i][j] -= with_step[i] * with_step[j] / of_step;
    }
  }

 private:
  static constexpr std::size_t kCosts = 3;
  using Vector = std::array<double, kCosts>;

  static constexpr double kAttended = 0.3;   // a thousand positions, of a token's cost, at first
  static constexpr double kNoise = 0.1;      // a step's, of the logarithm of its time
  static constexpr double kDrift = 0.05;     // drift of a cost from a step to the next
  static constexpr double kUncertain = 0.5;  // uncertainty of a cost at first, and at most
  static constexpr double kMaxError = 0.7;

  Vector parts(const StepWork& work) const {
    return {cost_[0] * (kStepRows + work.decodes), cost_[1] * work.tokens, cost_[2] * work.attended};
  }

  // Uncertainty of a cost that no recent step has measured grows to that of an unknown one and no further;
  // its correlation with other costs shrinks accordingly.
  void grow_uncertain() {
    for (std::size_t i = 0; i < kCosts; ++i) {
      covariance_[i][i] += kDrift * kDrift;
      const double over = std::min(1.0, kUncertain / std::sqrt(covariance_[i][i]));
      for (std::size_t j = 0; j < kCosts; ++j) {
        covariance_[i][j] *= over;
        covariance_[j][i] *= over;
      }
    }
  }

  bool known_ = false;
  Vector cost_ = {};  // a row, a prompt's token, a thousand positions that it attends to
  std::array<Vector, kCosts> covariance_ = {
      {{kUncertain * kUncertain, 0, 0}, {0, kUncertain* kUncertain, 0}, {0, 0, kUncertain* kUncertain}}};
};

}  // namespace pagoda
