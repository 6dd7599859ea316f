#pragma once
// CostEstimate: the duration of a step, learned from past steps:
//
//     seconds = row * (kStepRows + decodes) + token * tokens of prompts + attended * positions they attend to
//
// An extended Kalman filter on the logarithms of the three costs: a step that took e times as long as
// expected moves each cost by a power of e, depending on its part in the step and its uncertainty. A wrong
// cost is corrected by steps that mix it with others, and no cost becomes zero or negative. It is not a model
// of the machine: attention of decodes, for example, is part of a row's cost, which adapts. Deterministic:
// same steps, same costs. Threads: none; owned by StepBudget.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "decoding/draft_policy.h"

namespace pagoda {

// The work of one step.
struct StepWork {
  double decodes = 0;
  double tokens = 0;    // prompt tokens
  double attended = 0;  // thousands of positions before each prompt token, summed
};

class CostEstimate {
 public:
  bool known() const { return known_; }
  // In seconds; 0 until the costs are known.
  double seconds(const StepWork& work) const {
    double sum = 0;
    for (const double part : parts(work)) sum += part;
    return sum;
  }

  // Number of tokens of one prompt, from `position` on, that add this much time to a step. Requires known().
  double prompt_tokens(double seconds, double position) const {
    const double first = cost_[1] + cost_[2] * position / 1000, more = cost_[2] / 1000;
    return 2 * seconds / (first + std::sqrt(first * first + 2 * more * seconds));
  }

  // Learns from a step that took `seconds` > 0.
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
    // A step that something else held up counts as at most twice as long as expected.
    const double error = std::clamp(std::log(seconds / expected), -kMaxError, kMaxError);
    for (std::size_t i = 0; i < kCosts; ++i) {
      cost_[i] *= std::exp(with_step[i] / of_step * error);
      for (std::size_t j = 0; j < kCosts; ++j) covariance_[i][j] -= with_step[i] * with_step[j] / of_step;
    }
  }

 private:
  static constexpr std::size_t kCosts = 3;
  using Vector = std::array<double, kCosts>;

  // Initial cost of a thousand positions, relative to a token's cost.
  static constexpr double kAttended = 0.3;
  static constexpr double kNoise = 0.1;      // noise of the logarithm of a step's time
  static constexpr double kDrift = 0.05;     // drift of a cost from one step to the next
  static constexpr double kUncertain = 0.5;  // initial and maximum uncertainty of a cost
  static constexpr double kMaxError = 0.7;

  Vector parts(const StepWork& work) const {
    return {cost_[0] * (kStepRows + work.decodes), cost_[1] * work.tokens, cost_[2] * work.attended};
  }

  // The uncertainty of a cost that recent steps did not measure grows, up to that of an unknown cost; its
  // correlation with other costs shrinks accordingly.
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
  Vector cost_ = {};  // per row, per prompt token, per thousand positions attended to
  std::array<Vector, kCosts> covariance_ = {
      {{kUncertain * kUncertain, 0, 0}, {0, kUncertain* kUncertain, 0}, {0, 0, kUncertain* kUncertain}}};
};

}  // namespace pagoda
